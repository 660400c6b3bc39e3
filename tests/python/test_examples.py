"""The notebooks and the Friday-evening script of examples/python, executed.

PyTorch and TensorFlow are too large to be fetched for tests: where they are not installed, or where the machine has not two
GPUs, the stand-ins below tests/python/standins take their place. They fit real lines, on devices that are only counted.
"""
# ctest: timeout 1200
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import tholepin
from ecosystem import EXAMPLES, environment, python_with, run
from tholepin import _native

STANDINS = pathlib.Path(__file__).parent / "standins"

# Kernels not by TCP: see test_jupyter.py.
EXECUTE = """
import os, sys, tempfile, nbformat, nbclient, traitlets.config
sockets = tempfile.TemporaryDirectory(prefix="k")
by_files = traitlets.config.Config(KernelManager={"transport": "ipc", "ip": os.path.join(sockets.name, "k")})
notebook = nbformat.read(sys.argv[1], as_version=4)
if sys.argv[3]: notebook.cells.append(nbformat.v4.new_code_cell(sys.argv[3]))
nbclient.NotebookClient(notebook, timeout=200, startup_timeout=200, kernel_name=sys.argv[2], config=by_files).execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", ""), end="")
"""


@pytest.fixture
def python(monkeypatch, tmp_path):
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    found = python_with(["ipykernel", "nbclient"], ["ipykernel", "nbclient"])
    monkeypatch.setenv("PATH", f"{os.path.dirname(found)}:{os.environ['PATH']}")
    return found


def real_gpus():
    """How many NVIDIA GPUs this machine really has."""
    if not shutil.which("nvidia-smi"):
        return 0
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ")


def framework(monkeypatch, python, name):
    """Is it the real one, on real GPUs? Else the stand-in is put in its place."""
    installed = subprocess.run([python, "-c", f"import {name}"], capture_output=True).returncode == 0
    if installed and real_gpus() >= 2:
        for variable in ("THOLE_MACHINE", "THOLE_STATE_DIR"):
            monkeypatch.delenv(variable)
        return True
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(STANDINS), os.environ.get("PYTHONPATH", "")]))
    return False


@pytest.mark.parametrize("kernel", ["python3", "two"])
@pytest.mark.parametrize("name, devices", [("torch", "cuda:0 cuda:1"), ("tensorflow", "GPU:0 GPU:1")])
def test_a_notebook_trains_and_infers_on_its_gpus(monkeypatch, python, tmp_path, name, devices, kernel):
    """In an ordinary kernel, whose first cell claims, and in one that `thole jupyter install -g 2` made."""
    real = framework(monkeypatch, python, name)
    if kernel == "two":
        run([_native.program(), "jupyter", "install", "-g", "2", "--name", "two", "--pick", "last"], tmp_path)
    told = "" if real else f"import {name}; print(*sorted({name}.used))"
    notebook = EXAMPLES / {"torch": "pytorch_some_gpus.ipynb", "tensorflow": "tensorflow_some_gpus.ipynb"}[name]
    lines = run([python, "-c", EXECUTE, notebook, kernel, told], tmp_path).splitlines()
    losses = [float(line.split()[-1]) for line in lines if line.startswith("loss on")]
    assert len(losses) == 2 and max(losses) < 0.1, lines
    assert len([line for line in lines if " is GPU " in line]) == 2
    if not real:
        assert lines[-1] == devices
        if kernel == "two":
            assert "0 is GPU 6 of this machine" in "\n".join(lines)
    with tholepin.claim(2, wait=30):
        pass


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]


def test_friday_evening_four_variants_train_while_a_fifth_gpu_debugs(tmp_path):
    """The four wait in their first import until all five GPUs have been seen taken."""
    gate = tmp_path / "gate"
    (tmp_path / "torch.py").write_text(f"""
import os, time
while not os.path.exists({str(gate)!r}): time.sleep(0.01)
raise ImportError("no PyTorch here")
""")
    debugging = f"""
import json, pathlib, select, subprocess
while True:
    status = json.loads(subprocess.run(["thole", "status", "--json"], capture_output=True, text=True).stdout)
    if len(status["claims"]) == 5: break
    select.select([], [], [], 0.05)
pathlib.Path({str(gate)!r}).touch()
print(len(set(one["key"] for one in status["claims"])), "GPUs,", claim.indices)

"""
    # What stands beside the examples is found first: the jobs import the gate instead of PyTorch.
    for example in ("friday_evening.py", "train.py"):
        shutil.copy(EXAMPLES / example, tmp_path)
    done = subprocess.run([sys.executable, tmp_path / "friday_evening.py"], input=debugging, cwd=tmp_path, env=environment(),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"debugging on GPU (\d)", done.stdout), done.stdout
    assert "5 GPUs," in done.stdout, done.stdout + done.stderr
    run([_native.program(), "wait", "-q"], tmp_path)
    logs = [run([_native.program(), "logs", str(job)], tmp_path) for job in (1, 2, 3, 4)]
    results = [re.search(r"rate ([\d.]+) on GPU (\d): loss ([\d.e-]+)", log).groups() for log in logs]
    assert [rate for rate, _, _ in results] == ["0.2", "0.1", "0.05", "0.01"]
    assert len({gpu for _, gpu, _ in results}) == 4
    assert all(float(loss) < 0.1 for _, _, loss in results)


def test_every_example_is_executed_somewhere():
    tests = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_*.py"))
    assert [path.name for path in EXAMPLES.iterdir() if path.is_file() and path.name not in tests] == []
