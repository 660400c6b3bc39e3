# ctest: timeout 600
"""Too late is an error: every way of having started CUDA, HIP or Level Zero before claiming is found and named."""
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

import tholepin

BUILD = pathlib.Path(os.environ.get("THOLE_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build"))


def module(**attributes):
    return types.SimpleNamespace(**attributes)


def device(initialised, **more):
    return module(is_initialized=lambda: initialised, **more)


def gpu_of_tensorflow(kind="GPU"):
    return [module(device_type="CPU"), module(device_type=kind)]


def raises(*_):
    raise RuntimeError("not initialised")


STARTED = {
    "torch": ("torch", "CUDA", {"torch": module(cuda=device(True), version=module(hip=None))}),
    "torch for ROCm": ("torch", "HIP", {"torch": module(cuda=device(True), version=module(hip="6.2"))}),
    "torch on Intel": ("torch", "Level Zero", {"torch": module(cuda=device(False), xpu=device(True))}),
    "torch in the parent of a fork": ("torch", "CUDA", {"torch": module(cuda=device(False, _is_in_bad_fork=lambda: True))}),
    "tensorflow that listed its GPUs": (
        "tensorflow",
        "CUDA",
        {
            "tensorflow.python.eager.context": module(
                _context=module(_physical_devices=gpu_of_tensorflow(), _logical_devices=None)
            )
        },
    ),
    "tensorflow with logical devices": (
        "tensorflow",
        "CUDA",
        {"tensorflow.python.eager.context": module(_context=module(_logical_devices=gpu_of_tensorflow()))},
    ),
    "jax": ("jax", "CUDA", {"jax._src.xla_bridge": module(_backends={"cpu": 1, "cuda": 2})}),
    "jax for ROCm": ("jax", "HIP", {"jax._src.xla_bridge": module(_backends={"rocm": 1})}),
    "cupy": ("cupy", "CUDA", {"cupy_backends.cuda.api.driver": module(ctxGetCurrent=lambda: 0x5500)}),
    "numba": (
        "numba",
        "CUDA",
        {"numba.cuda.cudadrv.driver": module(driver=module(is_initialized=True, initialization_error=None))},
    ),
    "pycuda": ("pycuda", "CUDA", {"pycuda.driver": module(Context=module(get_current=lambda: object()))}),
}

IDLE = {
    "torch": {"torch": module(cuda=device(False, _is_in_bad_fork=lambda: False), version=module(hip=None), xpu=device(False))},
    "torch without GPUs": {"torch": module()},
    "torch half imported": {"torch": types.ModuleType("torch")},
    "tensorflow before anything": {"tensorflow.python.eager.context": module(_context=None)},
    "tensorflow on the CPU": {
        "tensorflow.python.eager.context": module(
            _context=module(_physical_devices=gpu_of_tensorflow("CPU"), _logical_devices=gpu_of_tensorflow("CPU"))
        )
    },
    "jax before anything": {"jax._src.xla_bridge": module(_backends={})},
    "jax on the CPU": {"jax._src.xla_bridge": module(_backends={"cpu": 1})},
    "cupy before anything": {"cupy_backends.cuda.api.driver": module(ctxGetCurrent=raises)},
    "cupy for ROCm is not asked": {
        "cupy_backends.cuda.api.driver": module(ctxGetCurrent=lambda: 1 / 0 or 1),
        "cupy_backends.cuda.api.runtime": module(is_hip=True),
    },
    "numba without a driver": {
        "numba.cuda.cudadrv.driver": module(driver=module(is_initialized=True, initialization_error=OSError()))
    },
    "numba before anything": {
        "numba.cuda.cudadrv.driver": module(driver=module(is_initialized=False, initialization_error=None))
    },
    "pycuda before anything": {"pycuda.driver": module(Context=module(get_current=raises))},
}


def load(monkeypatch, modules):
    for name, stub in modules.items():
        monkeypatch.setitem(sys.modules, name, stub)


@pytest.mark.parametrize("culprit, runtime, modules", STARTED.values(), ids=STARTED)
def test_a_framework_that_has_started_its_runtime_is_named(monkeypatch, culprit, runtime, modules):
    load(monkeypatch, modules)
    with pytest.raises(tholepin.TooLateError) as caught:
        tholepin.claim(1)
    assert caught.value.culprit == culprit
    assert f"{culprit} has started {runtime} in this process" in caught.value.message
    assert caught.value.hint and caught.value.code == 70
    assert not thole_status()["claims"]


@pytest.mark.parametrize("modules", IDLE.values(), ids=IDLE)
def test_a_framework_that_is_only_loaded_is_no_obstacle(monkeypatch, modules):
    load(monkeypatch, modules)
    with tholepin.claim(1) as claim:
        assert len(claim.uuids) == 1


def thole_status():
    from tholepin import _native

    return _native.call_json("thole_snapshot", _native.machine())


def test_the_fix_fits_the_place(monkeypatch):
    load(monkeypatch, STARTED["torch"][2])
    with pytest.raises(tholepin.TooLateError, match="first line of the program"):
        tholepin.claim(1)
    monkeypatch.setitem(sys.modules, "ipykernel", module())
    with pytest.raises(tholepin.TooLateError, match="restart the kernel"):
        tholepin.claim(1)
    load(monkeypatch, STARTED["torch in the parent of a fork"][2])
    with pytest.raises(tholepin.TooLateError, match="spawn"):
        tholepin.claim(1)


# ---- Without a framework's word ----


@pytest.mark.parametrize("path, runtime", [("/dev/nvidia-uvm", "CUDA"), ("/dev/kfd", "HIP")])
def test_an_open_device_of_a_compute_runtime_is_found(monkeypatch, tmp_path, path, runtime):
    monkeypatch.setenv("THOLE_SYSROOT", str(tmp_path / "root"))
    file = pathlib.Path(f"{tmp_path}/root{path}")
    file.parent.mkdir(parents=True)
    with open(file, "w"):
        with pytest.raises(tholepin.TooLateError) as caught:
            tholepin.claim(1)
        assert caught.value.culprit == "a library"
        assert f"started {runtime}" in caught.value.message and path in caught.value.message
        monkeypatch.setitem(sys.modules, "cupy", module())
        monkeypatch.setitem(sys.modules, "torch", module())
        with pytest.raises(tholepin.TooLateError) as caught:
            tholepin.claim(1)
        assert caught.value.culprit == "torch or cupy"
    tholepin.claim(1)


@pytest.mark.parametrize("path", ["/dev/nvidiactl", "/dev/nvidia0", "/dev/dri/renderD128"])
def test_devices_that_nvml_and_graphics_open_prove_nothing(monkeypatch, tmp_path, path):
    monkeypatch.setenv("THOLE_SYSROOT", str(tmp_path / "root"))
    file = pathlib.Path(f"{tmp_path}/root{path}")
    file.parent.mkdir(parents=True)
    with open(file, "w"):
        tholepin.claim(1)


CUDA_BY_HAND = """
import ctypes, sys, types, tholepin
cuda = ctypes.CDLL(sys.argv[1])
tholepin.claim(1).release()                  # loaded is not started
assert cuda.cuInit(0) == 0
sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: False))
try:
    tholepin.claim(1)
except tholepin.TooLateError as error:
    print(error.culprit, "|", error.message)
"""


def test_a_driver_started_behind_the_framework_s_back_is_found():
    """As torch.cuda.is_available() does, unless PYTORCH_NVML_BASED_CUDA_CHECK is set."""
    fake = BUILD / "fake/full/libcuda.so.1"
    if not fake.exists():
        pytest.skip(f"no {fake}: build the target fake_cuda")
    said = python(CUDA_BY_HAND, str(fake))
    assert said.startswith("torch | too late to claim: torch has started CUDA"), said
    assert "is_available()" in said


def test_the_driver_s_list_of_processes_is_asked(tmp_path):
    """A machine whose driver shows this very process on GPU 3, however it got there."""
    machine = tmp_path / "machine.json"
    code = """
import json, os, pathlib, sys, tholepin
machine = json.loads(pathlib.Path(sys.argv[1]).read_text())
tholepin.claim(1).release()
machine["gpus"][3]["use"] = {"memory_used_mib": 500, "processes": [{"pid": os.getpid(), "memory_mib": 500, "watch": True}]}
pathlib.Path(sys.argv[1]).write_text(json.dumps(machine))
for wait in (0, None):                    # nor does it wait for itself
    try:
        tholepin.claim(8, wait=wait)
    except tholepin.TooLateError as error:
        print(error.code, error.message, "|", error.hint)
"""
    machine.write_text(captured())
    said = python(code, str(machine), THOLE_MACHINE=str(machine)).splitlines()
    assert len(said) == 2 and said[0] == said[1]
    assert said[0].startswith("70 too late to claim: the driver shows this process on GPU 3 | claim before CUDA")


@pytest.mark.parametrize(
    "held, said", [("released", "too late to claim: the driver shows this process on GPU 1"), ("held", "[1]\n")]
)
def test_a_faked_nvidia_driver_that_knows_our_pid(tmp_path, held, said):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))
    from fake_nvidia import Driver

    if not (BUILD / "fake/full/libnvidia-ml.so.1").exists():
        pytest.skip(f"no {BUILD}/fake/full/libnvidia-ml.so.1: build the target fake_nvml_full")
    driver = Driver(tmp_path, 2)
    code = """
import os, pathlib, sys, tholepin
held = tholepin.claim(1, on=[1])
if sys.argv[2] == "released":
    held.release()
new = pathlib.Path(sys.argv[1] + ".new")
new.write_text(f"gpus 2\\ngpu 1 process compute {os.getpid()} 300\\n")
new.rename(sys.argv[1])
try:
    print(tholepin.claim(1).indices)
except tholepin.TooLateError as error:
    print(error)
"""
    ours = {name: os.environ[name] for name in ("THOLE_LIBRARY", "THOLE_PROGRAM") if name in os.environ}
    environment = {**driver.environment, **ours}
    done = subprocess.run(
        [sys.executable, "-c", code, str(driver.conf), held], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(said), done.stdout


def captured():
    return subprocess.run([os.environ.get("THOLE") or program(), "capture"], capture_output=True, text=True, check=True).stdout


def program():
    from tholepin import _native

    return _native.program()


def python(code, *words, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env={**os.environ, **environment}, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- Within a claim ----


def test_asking_again_for_what_the_process_has_is_never_too_late(monkeypatch):
    """A notebook's first cell run twice; a data loader's worker that imports the training script."""
    first = tholepin.claim(2)
    load(monkeypatch, STARTED["torch"][2])
    again = tholepin.claim(2)
    assert again.uuids == first.uuids
    for gpus in (1, 3):
        with pytest.raises(tholepin.TooLateError):
            tholepin.claim(gpus)


def test_a_dead_claim_in_the_environment_is_no_licence(monkeypatch):
    with tholepin.claim(1, on=[3]) as dead:
        stale = dict(dead.env)
    for name, value in stale.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    load(monkeypatch, STARTED["jax"][2])
    with pytest.raises(tholepin.TooLateError):
        tholepin.claim(1)
    assert json.loads(os.environ["THOLE_GPUS"])[0]["index"] == 3
    assert not thole_status()["claims"]


def test_nothing_is_imported_to_find_out():
    heavy = python(
        "import sys, tholepin; tholepin.claim(1); print([m for m in ('torch', 'tensorflow', 'jax', 'numpy') if m in "
        "sys.modules])"
    )
    assert heavy.strip() == "[]"
