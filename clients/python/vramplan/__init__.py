"""vramplan plans the GPU memory of training jobs.

    import vramplan
    result = vramplan.estimate({"model": {"preset": "gpt2"}, "training": {"micro_batch": 8}, "gpus": ["rtx-4090"]})
    result["gpus"][0]["verdict"]

Without a server, the program in this package answers, without network or database. ``Client(url)`` asks a service.
Both take and give the documents of the HTTP API.
"""

from ._client import Client, Problem, compare, estimate, gpus, models, plan, read
from ._types import Fit, Job, Peak, Plan, Result

__all__ = ["Client", "Fit", "Job", "Peak", "Plan", "Problem", "Result", "compare", "estimate", "gpus", "models", "plan", "read"]
