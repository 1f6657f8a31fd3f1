"""vramplan plans the GPU memory of training jobs.

    import vramplan
    result = vramplan.estimate({"model": {"preset": "gpt2"}, "training": {"micro_batch": 8}, "gpus": ["rtx-4090"]})
    result["gpus"][0]["verdict"]

Without a server, the program in this package answers, without network or database. ``Client(url)`` asks a service.
Both take and give the documents of the HTTP API.

``vramplan.hf.Callback``, ``vramplan.lightning.Callback`` and ``vramplan.watch`` say of a training run what it will take before its
first step, what it took after some, and why it ran out of memory.
"""

from ._client import Client, Problem, compare, estimate, gpus, models, plan, read
from ._observe import report
from ._run import DoesNotFit, watch
from ._types import Fit, Job, Peak, Plan, Result

__all__ = [
    "Client",
    "DoesNotFit",
    "Fit",
    "Job",
    "Peak",
    "Plan",
    "Problem",
    "Result",
    "compare",
    "estimate",
    "gpus",
    "models",
    "plan",
    "read",
    "report",
    "watch",
]
