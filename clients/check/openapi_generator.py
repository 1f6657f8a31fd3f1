"""One call by the Python client of openapi-generator: prints the bytes and the verdict."""

import sys

import vramplanapi as api

job = api.Job(
    model=api.Model(api.ModelByPreset(preset="gpt2")),
    training=api.Training(
        micro_batch=8, sequence_length=1024, precision=api.Precision.PRECISION_AMP_BF16,
        optimizer=api.Optimizer(api.OptimizerName.OPTIMIZER_NAME_ADAMW_TORCH_FUSED_UNDERSCORED)),
    gpus=[api.GPURef("rtx-4090")])
with api.ApiClient(api.Configuration(host=sys.argv[1])) as client:
    result = api.EstimatesApi(client).estimate(job)
print(result.peak.device_bytes, result.gpus[0].verdict.value)
