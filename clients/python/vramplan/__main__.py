"""The command vramplan."""

import os
import subprocess
import sys

from ._program import program


def main() -> None:
    """Become the program: exit codes and signals are its own."""
    arguments = [program(), *sys.argv[1:]]
    if sys.platform == "win32":
        sys.exit(subprocess.call(arguments))
    os.execv(arguments[0], arguments)


if __name__ == "__main__":
    main()
