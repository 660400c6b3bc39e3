"""`thole compat` and enable(): whose modules a program gets, and what it keeps."""

import os
import subprocess
import sys

import pytest
from compat_tools import LIMIT, compat, run, start

import tholepin

WHERE = "import GPUtil, gpu_affinity, safe_gpu\nprint([m.__file__.split('/')[-4] for m in (GPUtil, gpu_affinity, safe_gpu)])"
OURS = "['compat', 'compat', 'compat']\n"


def test_an_original_beside_the_script_is_passed_over(tmp_path):
    for name in ("GPUtil", "gpu_affinity", "safe_gpu"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('the original')")
    script = tmp_path / "script.py"
    script.write_text(WHERE)
    assert run(script) == OURS
    assert run(WHERE, environment={"PYTHONPATH": str(tmp_path)}) == OURS


def test_pythons_that_it_starts_have_them_too():
    assert (
        run(f"import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', {WHERE!r}], text=True), end='')")
        == OURS
    )


def test_spawned_workers_have_them_too(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing
def where(_):
    import GPUtil
    return GPUtil.__file__.split("/")[-4]
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(where, range(2)))
""")
    assert run(script) == "['compat', 'compat']\n"


def test_a_sitecustomize_of_the_users_own_is_run_as_well(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    assert run(WHERE, environment={"PYTHONPATH": str(tmp_path)}) == "mine\n" + OURS


def test_the_search_path_of_modules_is_as_without_it(tmp_path):
    show = "import sys; print(sys.path)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    plain = subprocess.run([sys.executable, "-c", show], env=environment, capture_output=True, text=True, timeout=LIMIT).stdout
    assert run(show, environment=environment) == plain


def test_submodules_and_names_of_the_originals():
    assert (
        run("""
from safe_gpu import safe_gpu, claim_gpus, release_gpus, PyCudaPlaceholder, PytorchPlaceholder, TensorflowPlaceholder
from GPUtil import GPU, getGPUs, getAvailable, getAvailability, getFirstAvailable, showUtilization, __version__
import GPUtil.GPUtil
from gpu_affinity import GPUAffinityError, Mode, Multithreading, Scope, set_affinity
import inspect, gpu_affinity, GPUtil as package
for function in (safe_gpu.claim_gpus, package.getAvailable, package.getAvailability, package.getFirstAvailable,
                 package.showUtilization):
    print(", ".join(f"{p.name}={p.default if p.default != () else []}"
                    for p in inspect.signature(function).parameters.values() if "laceholder" not in p.name))
print(", ".join(f"{p.name}={p.default}" for p in inspect.signature(set_affinity).parameters.values()
                if p.kind == p.KEYWORD_ONLY))
""")
        == """\
nb_gpus=1, logger=None, debug_sleep=0.0
order=first, limit=1, maxLoad=0.5, maxMemory=0.5, memoryFree=0, includeNan=False, excludeID=[], excludeUUID=[]
GPUs=<class 'inspect._empty'>, maxLoad=0.5, maxMemory=0.5, memoryFree=0, includeNan=False, excludeID=[], excludeUUID=[]
order=first, maxLoad=0.5, maxMemory=0.5, attempts=1, interval=900, verbose=False, includeNan=False, excludeID=[], excludeUUID=[]
all=False, attrList=None, useOldCode=False
mode=unique_contiguous, scope=node, multithreading=all_logical, balanced=True, min_physical_cores=1, max_physical_cores=None
"""
    )


def test_enable_does_the_same_inside_a_program():
    program = "import tholepin.compat\ntholepin.compat.enable()\ntholepin.compat.enable()\n" + WHERE
    packages = os.path.dirname(os.path.dirname(tholepin.__file__))
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": packages},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert answer.stdout == OURS, answer.stderr


def test_enable_after_the_original_was_imported_is_an_error(tmp_path):
    (tmp_path / "GPUtil.py").write_text("")
    program = ("import GPUtil, tholepin.compat\ntry:\n    tholepin.compat.enable()\nexcept Exception as error:\n    "
               "print(type(error).__name__, error.code, error)")
    path = os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(tholepin.__file__))])
    answer = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=LIMIT
    )
    assert answer.stdout == (
        f"Error 64 GPUtil has been imported already: {tmp_path}/GPUtil.py\n  call tholepin.compat.enable() before that\n"
    ), answer.stderr


def test_exit_status_arguments_and_stdin_are_the_programs_own():
    process = start("import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(7)", "a b", "--gpus")
    assert process.communicate("given", timeout=LIMIT)[0] == "['a b', '--gpus'] given\n"
    assert process.returncode == 7


@pytest.mark.parametrize(
    "options, wait", [([], None), (["--no-wait"], "0s"), (["--wait", "30m"], "1800s"), (["--wait", "90s"], "90s")]
)
def test_how_long_claims_wait_is_handed_down(options, wait):
    assert run("import os; print(os.environ.get('THOLE_WAIT'))", options=options) == f"{wait}\n"


def test_a_command_that_is_not_there():
    answer = subprocess.run(compat("--", "no-such-program"), capture_output=True, text=True, timeout=LIMIT)
    assert answer.returncode == 127
    assert "no-such-program" in answer.stderr


def test_a_simulated_machine_named_before_the_verb_is_the_programs():
    from tholepin import _native

    words = [
        _native.program(),
        "--machine",
        "2xA100",
        "compat",
        "--",
        sys.executable,
        "-c",
        "import GPUtil; print(len(GPUtil.getGPUs()))",
    ]
    assert subprocess.run(words, capture_output=True, text=True, timeout=LIMIT).stdout == "2\n"
