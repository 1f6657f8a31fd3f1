"""Records what a PyTorch module does in a training step, without weights and without a GPU, for vramplan to plan its memory."""

from .recording import VERSION as __version__
from .recording import record

__all__ = ["record", "__version__"]
