"""``python -m dragon PROG``: the command."""

import sys

from .launcher.launch_selector import main

if __name__ == "__main__":
    sys.exit(main())
