"""``python -m tholepin …`` is the bundled program ``thole …``."""

import os
import sys

from . import _native

program = _native.program()
os.execv(program, ["thole", *sys.argv[1:]])
