"""Where the program of this package is."""

import os
import sys
from pathlib import Path


def program() -> str:
    """The path of the vramplan program."""
    path = Path(__file__).parent / "bin" / ("vramplan.exe" if sys.platform == "win32" else "vramplan")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: this package was not installed from a wheel of its platform")
    if not os.access(path, os.X_OK):
        path.chmod(0o755)
    return str(path)
