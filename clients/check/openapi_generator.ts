// One call by the TypeScript client of openapi-generator: prints the bytes and the verdict.
import { Configuration, EstimatesApi, OptimizerName, Precision } from "./client";
import type { Job } from "./client";

const job: Job = {
  model: { preset: "gpt2" },
  training: { microBatch: 8, sequenceLength: 1024, precision: Precision.PRECISION_AMP_BF16, optimizer: { name: OptimizerName.OPTIMIZER_NAME_ADAMW_TORCH_FUSED_UNDERSCORED } },
  gpus: [{ name: "rtx-4090" }],
};
new EstimatesApi(new Configuration({ basePath: process.argv[2] })).estimate({ job }).then((result) => {
  console.log(result.peak.deviceBytes, result.gpus[0].verdict);
});
