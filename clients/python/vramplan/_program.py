"""Where the program of this package is, and asking it one question."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def program() -> str:
    """The path of the vramplan program."""
    path = Path(__file__).parent / "bin" / ("vramplan.exe" if sys.platform == "win32" else "vramplan")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: this package was not installed from a wheel of its platform")
    if not os.access(path, os.X_OK):
        path.chmod(0o755)
    return str(path)


def ask(*arguments: str, given: str = "", timeout: float = 60) -> Any:
    """What one command of the program answers, as JSON: an answer, or a document of application/problem+json."""
    # The driver that a process has preloaded, and what it says to Python, are not the program's.
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("VRAMPLAN_SERVER")}
    done = subprocess.run(
        [program(), *arguments, "--json"], input=given, capture_output=True, text=True, timeout=timeout, env=environment, encoding="utf-8"
    )
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise RuntimeError((done.stderr or done.stdout).strip().partition("\n")[0] or f"the program ended with {done.returncode}") from None
