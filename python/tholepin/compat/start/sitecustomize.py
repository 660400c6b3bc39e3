"""What every interpreter below ``thole compat`` runs first: Python imports a module of this name from PYTHONPATH at its start.

Puts the drop-ins in front, then hands on to the sitecustomize that this one hides. Runs in any Python that the program
starts, so it says what it cannot do and lets that one go on with the originals. The package is the one that belongs to
the ``thole`` that was called, whether or not this interpreter has one installed.
"""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _enable():
    # type: () -> None
    if sys.version_info < (3, 9):
        raise ImportError("it needs Python 3.9 or later, this is {}.{}".format(*sys.version_info[:2]))
    packages = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
    sys.path.insert(0, packages)
    try:
        import tholepin.compat
    finally:
        sys.path.remove(packages)
    tholepin.compat.enable()


def _hand_on():
    # type: () -> None
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as problem:
        if getattr(problem, "name", "sitecustomize") != "sitecustomize":  # Python 2 does not say which
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine


try:
    _enable()
except Exception as problem:
    try:
        sys.stderr.write("thole compat: {}: {}; the original modules are used\n".format(sys.executable, problem))
    except Exception:  # there is none, or nobody reads it
        pass
_hand_on()
