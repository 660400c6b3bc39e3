"""``python -m tholepin.compat``: puts a command ``dragon`` into this virtual environment, or takes it away again."""

import argparse
import sys

from tholepin import errors

from ._command import install, remove


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tholepin.compat", description=__doc__.partition(": ")[2])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--install-dragon", action="store_true", help="so that `dragon prog.py` runs on thole's claims")
    what.add_argument("--remove-dragon", action="store_true", help="takes that command away")
    said = parser.parse_args()
    try:
        print(install() if said.install_dragon else remove())
    except errors.Error as problem:
        print(f"thole: {problem}", file=sys.stderr)
        return problem.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
