"""The samples of the documents in Python: each runs as it is written, in a program of its own on four simulated GPUs."""
# ctest: timeout 600
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from conftest import ROOT

# What a sample needs that is not here; whoever has it runs it.
ELSEWHERE = {("jupyter", 0): "%load_ext is IPython's: test_jupyter.py runs such cells in a kernel"}


def samples():
    for page in sorted((ROOT / "docs").glob("*.md")):
        for number, text in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)):
            reason = ELSEWHERE.get((page.stem, number))
            yield pytest.param(text, id=f"{page.stem}-{number}", marks=[pytest.mark.skip(reason=reason)] if reason else [])


# What the samples leave to the reader: a function, in a module of its own where fresh processes find it; a rank's numbers.
FUNCTIONS = """
def train(variant=None, rate=None):
    return variant
"""
PROGRAM = """
import asyncio
import tholepin
from functions import train
grid, local_rank, nproc_per_node = [1, 2, 3], 0, 2

{head}
{body}
    pass

if __name__ == "__main__":
    {call}
"""


@pytest.mark.parametrize("text", list(samples()))
def test_a_sample_runs_as_it_is_written(text, tmp_path):
    waits = "async " in text or "await " in text
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "sample.py").write_text(PROGRAM.format(head="async def sample():" if waits else "def sample():",
                                                       body=textwrap.indent(text, "    "),
                                                       call="asyncio.run(sample())" if waits else "sample()"))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, does in (("nvtop", "exit 0"), ("python", f'exec {sys.executable} "$@"')):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    env = {**os.environ, "THOLE_MACHINE": "4xA100", "PATH": path}
    done = subprocess.run([sys.executable, "sample.py"], cwd=tmp_path, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_sample_is_found():
    pages = pathlib.Path(ROOT / "docs").glob("*.md")
    assert len(list(samples())) == sum(page.read_text().count("```python") for page in pages) > 3
