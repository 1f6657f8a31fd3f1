"""accelerate estimate-memory on a directory with a config.json, without the Hugging Face Hub.

The command asks the Hub about the model's name before it does anything and ends there when it gets no answer; it takes
no path (accelerate 1.15.0, commands/estimate.py, create_empty_model). Here that one question is answered on the spot;
the model that is built, the sizes and the table are accelerate's own.
"""

import sys
from types import SimpleNamespace

from accelerate.commands import estimate

if __name__ == "__main__":
    estimate.verify_on_hub = lambda repo, token=None: SimpleNamespace(library_name="transformers", config={})
    sys.argv[0] = "accelerate-estimate-memory"
    estimate.main()
