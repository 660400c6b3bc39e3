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
from tholepin import _native

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
    programs = (
        (tools / "nvtop", "exit 0"),
        (tools / "python", f'exec {sys.executable} "$@"'),
        (tools / "thole", f'exec {_native.program()} "$@"'),
        (tmp_path / "simulate", 'test -n "$CUDA_VISIBLE_DEVICES"'),
    )
    for path, does in programs:
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    env = {**os.environ, "THOLE_MACHINE": "4xA100", "PATH": path}
    done = subprocess.run([sys.executable, "sample.py"], cwd=tmp_path, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]


README_AND_TUTORIAL = [ROOT / "README.md", ROOT / "docs/tutorial.md"]
IN_A_SENTENCE = re.compile(r"`((?:import tholepin|with tholepin|tholepin)\b[^`]*)`")


@pytest.mark.parametrize("page", README_AND_TUTORIAL, ids=lambda page: page.stem)
def test_python_in_a_sentence_gives_what_the_sentence_says(page, tmp_path):
    """What the README and the tutorial write between backquotes; a pool there gives each worker a GPU of its own."""
    lines = [" ".join(found.split()) for found in IN_A_SENTENCE.findall(page.read_text())]
    pools = [line for line in lines if line.startswith("with")]
    assert pools
    (tmp_path / "functions.py").write_text(
        "import os\ndef train(variant):\n    return os.environ.get('CUDA_VISIBLE_DEVICES')\n")
    for number, line in enumerate(lines):
        seen = line.replace("pool.map(", "seen = pool.map(")
        (tmp_path / f"line{number}.py").write_text(
            "import tholepin\nfrom functions import train\nvariants = range(40)\n"
            f"if __name__ == '__main__':\n    {seen if line in pools else line}\n"
            + ("    assert seen and set(seen) <= set('0123'), seen\n" if line in pools else "")
        )
        done = subprocess.run([sys.executable, f"line{number}.py"], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True,
                              env={**os.environ, "THOLE_MACHINE": "4xA100"}, text=True, timeout=500)
        assert done.returncode == 0, f"{line}\n{done.stderr[-3000:]}"


def test_the_indented_lines_of_the_tutorial_in_python(tmp_path):
    section = (ROOT / "docs/tutorial.md").read_text().partition("## 7. From Python")[2].partition("\n## ")[0]
    program = "\n".join(re.findall(r"^    (.*)$", section, re.M))
    assert "tholepin.claim(2)" in program
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True,
                          env={**os.environ, "THOLE_MACHINE": "4xA100"}, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (0, "[0, 1]\n"), done.stderr[-3000:]


def test_every_sample_is_found():
    pages = pathlib.Path(ROOT / "docs").glob("*.md")
    assert len(list(samples())) == sum(page.read_text().count("```python") for page in pages) > 3
