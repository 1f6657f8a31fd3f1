// One call by openapi-fetch with the types of openapi-typescript: prints the bytes and the verdict.
import createClient from "openapi-fetch";
import type { paths } from "./schema";

const client = createClient<paths>({ baseUrl: process.argv[2] });
client.POST("/v1/estimate", {
  body: {
    model: { preset: "gpt2" },
    training: { micro_batch: 8, sequence_length: 1024, precision: "amp-bf16", optimizer: "adamw_torch_fused" },
    gpus: ["rtx-4090"],
  },
}).then(({ data, error }) => {
  if (!data) throw new Error(JSON.stringify(error));
  console.log(data.peak.device_bytes, data.gpus[0].verdict);
});
