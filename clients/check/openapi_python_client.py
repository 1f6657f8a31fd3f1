"""One call by the client of openapi-python-client: prints the bytes and the verdict."""

import sys

from vramplan_client import Client
from vramplan_client.api.estimates import estimate
from vramplan_client.models import Job, ModelByPreset, OptimizerName, Precision, Result, Training

job = Job(
    model=ModelByPreset(preset="gpt2"),
    training=Training(
        micro_batch=8, sequence_length=1024, precision=Precision.PRECISION_AMP_BF16,
        optimizer=OptimizerName.OPTIMIZER_NAME_ADAMW_TORCH_FUSED_UNDERSCORED),
    gpus=["rtx-4090"])
result = estimate.sync(client=Client(base_url=sys.argv[1]), body=job)
assert isinstance(result, Result), result
print(result.peak.device_bytes, result.gpus[0].verdict.value)
