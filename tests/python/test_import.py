# ctest: serial
"""Importing tholepin costs next to nothing and starts nothing. (bench/python.py measures it beside a bare interpreter.)"""
import json
import subprocess
import sys

import pytest

# What an import must not load: each costs more than the whole of tholepin, or starts a runtime.
HEAVY = {
    "ctypes",
    "json",
    "typing",
    "re",
    "enum",
    "dataclasses",
    "subprocess",
    "inspect",
    "logging",
    "multiprocessing",
    "asyncio",
    "torch",
    "tensorflow",
    "jax",
    "numpy",
    "cupy",
    "tholepin._native",
}


def modules_after(statement):
    """Those that the statement loads."""
    code = (f"import sys; before = set(sys.modules); {statement}; new = set(sys.modules) - before; import json; "
            f"print(json.dumps(sorted(new)))")
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path[:0] = %r; %s" % (sys.path, code)], stdout=subprocess.PIPE, check=True
    )
    return set(json.loads(done.stdout))


def test_an_import_loads_nothing_but_itself():
    assert modules_after("import tholepin") == {"tholepin"}


def test_catching_an_error_does_not_load_the_library():
    assert not modules_after("import tholepin; tholepin.NoneFree") & HEAVY


@pytest.mark.parametrize("name", ["claim", "gpus"])
def test_a_use_loads_no_framework(name):
    assert not modules_after(f"import tholepin; tholepin.{name}") & {
        "torch",
        "tensorflow",
        "jax",
        "numpy",
        "cupy",
        "multiprocessing",
        "asyncio",
    }
