"""Records what a PyTorch module does in a training step, without weights and without a GPU, for vramplan to plan its memory."""

import gc

# What torch's import makes stays; looking for garbage in it again and again takes a tenth of its time.
_collecting = gc.isenabled()
gc.disable()
try:
    from .recording import VERSION as __version__
    from .recording import record
finally:
    if _collecting:
        gc.enable()

__all__ = ["record", "__version__"]
