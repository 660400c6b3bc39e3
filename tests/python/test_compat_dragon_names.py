"""Every public name of Dragon 0.15 in scope: it is there, is what it is there, and is called as it is called there.

What Dragon's are is recorded in compat/dragon/names_0.15.0.jsonl (how: names.py beside it). What differs is in the table below,
each with its reason, and in docs/compat.md. A line of the table that says nothing any more is a failure, too."""
import json
import os
import pathlib
import subprocess

import pytest
from compat_tools import LIMIT, compat, run

HERE = pathlib.Path(__file__).parent / "compat/dragon"
RECORDED = HERE / "names_0.15.0.jsonl"
DRAGON = os.environ.get("THOLE_TEST_DRAGON")  # a Python that has dragonhpc

# Path, also of all that is below it -> why it is another here.
_CHANNELS = "Dragon's channels are out"
DIFFERENT = {
    "dragon.Batch": "workflows are out",
    "dragon.DDict": "the distributed dictionary is out",
    "dragon.native.Array": "managed memory is out",
    "dragon.native.Semaphore": "not asked for yet",
    "dragon.native.Value": "managed memory is out",
    "dragon.native.pool.ApplyResult": "tholepin's; only a pool makes them",
    "dragon.native.pool.AsyncResult": "tholepin's; only a pool makes them",
    "dragon.native.pool.MapResult": "tholepin's; only a pool makes them",
    "dragon.native.pool.MaybeEncodingError": "a result that cannot be pickled raises what pickling it has raised",
    "dragon.native.pool.RemoteTraceback": "tholepin's, with the same text; only a pool makes them",
    "dragon.native.queue.Queue.__init__": "pickler: None, cloudpickle where it is installed",
    "dragon.native.queue.Queue.attach": "pickler: None, cloudpickle where it is installed",
    "dragon.native.queue.Queue.thread_wait": "a part of dragon.mpbridge",
    "dragon.native.barrier.BrokenBarrierError": "Dragon's also is an error of its channels; here it is threading's",
    **{
        f"dragon.infrastructure.connection.{name}": _CHANNELS
        for name in ("Address", "CUID", "Client", "ConnectionOptions", "Listener", "Pipe", "PipeOptions")
    },
    "dragon.infrastructure.connection.Connection.State": _CHANNELS,
    "dragon.infrastructure.connection.Connection.__init__": _CHANNELS,
    "dragon.infrastructure.connection.Connection.inbound_channel": _CHANNELS,
    "dragon.infrastructure.connection.Connection.outbound_channel": _CHANNELS,
    "dragon.infrastructure.connection.Connection.poll": "event_mask: " + _CHANNELS,
    "dragon.infrastructure.connection.Connection.thread_wait": "a part of dragon.mpbridge",
    "dragon.native.process_group.ProcessGroup.__exit__": "called by `with` only",
}
ERRORS = "dragon.native.process_group.Dragon"  # their Errors: numbers of Dragon's C library


def told(text):
    """Path -> what it is."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert len({path for path, *_ in lines}) == len(lines) > 250
    return {path: what for path, *what in lines}


def reason(path):
    if path.startswith(ERRORS) and path.endswith(".Errors"):
        return "ERRORS"
    parts = path.split(".")
    return next((there for there in (".".join(parts[:n]) for n in range(len(parts), 0, -1)) if there in DIFFERENT), None)


def same(theirs, ours):
    if theirs[0] == "class" and ours and ours[0] == "class":  # ours may have further bases
        return [base for base in ours[1] if base in theirs[1]] == theirs[1]
    return theirs == ours


@pytest.fixture(scope="module")
def both():
    return told(RECORDED.read_text()), told(run((HERE / "names.py").read_text()))


def test_names_kinds_parameters_and_defaults_are_dragons(both):
    theirs, ours = both
    other = {path: (what, ours.get(path)) for path, what in theirs.items() if not same(what, ours.get(path))}
    assert {path: both for path, both in other.items() if reason(path) is None} == {}
    assert set(DIFFERENT) | {"ERRORS"} == {reason(path) for path in other}, "lines of the table that nothing needs"


def test_the_record_is_what_dragonhpc_says():
    if not DRAGON:
        pytest.skip("THOLE_TEST_DRAGON names no Python that has dragonhpc (docs/compat.md)")
    asked = subprocess.run([DRAGON, HERE / "names.py"], capture_output=True, text=True, timeout=LIMIT)
    assert asked.returncode == 0, asked.stderr
    recorded = told(RECORDED.read_text())
    assert {path: what for path, what in told(asked.stdout).items() if what != ["missing"]}.items() <= recorded.items()


@pytest.mark.parametrize(
    "statement, name",
    [
        ("import dragon.data.ddict", "dragon.data"),
        ("from dragon.data.ddict.ddict import DDict", "dragon.data"),
        ("import dragon.data.zarr", "dragon.data"),
        ("from dragon import DDict", "dragon.DDict"),
        ("from dragon import Batch", "dragon.Batch"),
        ("import dragon.workflows.batch", "dragon.workflows"),
        ("import dragon.telemetry", "dragon.telemetry"),
        ("import dragon.ai.torch", "dragon.ai"),
        ("import dragon.channels", "dragon.channels"),
        ("from dragon import channels", "dragon.channels"),
        ("from dragon.managed_memory import MemoryPool", "dragon.managed_memory"),
        ("import dragon.fli", "dragon.fli"),
        ("from dragon.native import Value", "dragon.native.Value"),
        ("import dragon.native.semaphore", "dragon.native.semaphore"),
        ("from dragon.infrastructure.connection import Pipe", "dragon.infrastructure.connection.Pipe"),
        ("import dragon.mpbridge", "dragon.mpbridge"),
    ],
)
def test_what_is_out_says_so(statement, name):
    said = run(f"""
try:
    {statement}
except ImportError as problem:
    print(type(problem).__name__, problem.name, problem)
""")
    assert said.startswith(f"ImportError {name} {name} is not in thole's drop-in") and "pip install dragonhpc" in said


def test_a_name_that_nobody_has_is_an_attribute_error():
    said = run("import dragon.native; print(hasattr(dragon, 'nothing'), hasattr(dragon.native, 'nothing'))")
    assert said == "False False\n"


def test_the_real_one_imported_before_is_told(tmp_path):
    (tmp_path / "dragon.py").write_text("")
    said = subprocess.run(
        compat("--", "python3", "-c", "import dragon; print(dragon.in_dragon())"),
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert said.stdout == "True\n", "a file of that name beside the program is not taken"
