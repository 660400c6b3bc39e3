"""joblib, Optuna, Dask and Hydra with its joblib and submitit launchers: the examples, with the real packages, around and
inside a claim.

Seen here with joblib 1.6.0, optuna 5.0.0, distributed 2026.8.0, hydra-core 1.3.8, hydra-joblib-launcher and
hydra-submitit-launcher 1.2.0, submitit 1.5.4. And pools beside the greenlets of gevent 26.9.0.
"""
# ctest: timeout 1200
import pytest

from ecosystem import EXAMPLES, check_one_each, inside, python_with, rows, run
from tholepin import _native

pytestmark = pytest.mark.usefixtures("all_claims_end")


@pytest.mark.parametrize("around", [0, 3])
def test_processes_of_joblib_own_a_gpu_each(tmp_path, around):
    python = python_with(["joblib"], ["joblib"])
    done = rows(run(inside(around, [python, EXAMPLES / "joblib_grid.py", 3]), tmp_path))
    assert len(done) == 12
    check_one_each(line[1:] for line in done)


@pytest.mark.parametrize("around", [0, 3])
def test_workers_of_a_dask_cluster_own_a_gpu_each(tmp_path, around):
    python = python_with(["distributed"], ["dask[distributed]"])
    done = rows(run(inside(around, [python, EXAMPLES / "dask_cluster.py", 3]), tmp_path))
    assert len(done) == 12
    assert check_one_each(line[1:] for line in done) >= 2


@pytest.mark.parametrize("around", [0, 3])
@pytest.mark.parametrize("launcher, package", [(["joblib", "hydra.launcher.n_jobs=3"], "hydra-joblib-launcher"),
                                               (["submitit_local"], "hydra-submitit-launcher")], ids=["joblib", "submitit"])
def test_jobs_of_a_hydra_sweep_own_a_gpu_each(tmp_path, launcher, package, around):
    if launcher[0] == "submitit_local":  # it hides all GPUs from its jobs unless told how many they may see
        launcher = [*launcher, "hydra.launcher.gpus_per_node=8"]
    python = python_with(["hydra", f"hydra_plugins.{package.replace('-', '_')}"], ["hydra-core", package])
    run(
        inside(
            around,
            [
                python,
                EXAMPLES / "hydra_app.py",
                "--multirun",
                f"hydra/launcher={launcher[0]}",
                *launcher[1:],
                "+rate=0.1,0.01,0.001",
                f"hydra.sweep.dir={tmp_path}/sweep",
            ],
        ),
        tmp_path,
        RESULTS=str(tmp_path / "results"),
    )
    done = rows((tmp_path / "results").read_text())
    assert sorted(line[0] for line in done) == ["0.001", "0.01", "0.1"]
    if launcher[0] == "joblib":  # its processes live as long as the sweep; submitit's jobs follow each other
        check_one_each(line[1:] for line in done)
    assert all(line[1].startswith("GPU-") for line in done)


def test_processes_of_an_optuna_study_own_a_gpu_each(tmp_path):
    python = python_with(["optuna"], ["optuna"])
    study = tmp_path / "study.log"
    run(
        [
            _native.program(),
            "map",
            "-q",
            "-g",
            1,
            "-j",
            3,
            python,
            EXAMPLES / "optuna_study.py",
            "{}",
            ":::",
            study,
            study,
            study,
        ],
        tmp_path,
    )
    text = run([python, EXAMPLES / "optuna_study.py", study], tmp_path)
    assert text.split()[0] == "20"
    assert study.read_text().count("GPU-") == 20


GREENLETS = """
from gevent import monkey; monkey.patch_all()
import asyncio, os, gevent, tholepin
def square(x): return x * x
turns = []
def others():
    while True: turns.append(1); gevent.sleep(0.01)
async def claimed():
    async with tholepin.aclaim(1) as claim: return len(claim.indices)
if __name__ == "__main__":
    gevent.spawn(others)
    with tholepin.Pool(gpus=2) as pool: print(sum(pool.map(square, range(100))))
    with tholepin.Executor(gpus=2) as executor: print(executor.submit(square, 3).result())
    print(tholepin.on_gpu(1)(square)(4), asyncio.run(claimed()), len(turns) > 3)
"""


def test_greenlets_of_gevent_run_beside_pools(tmp_path):
    python = python_with(["gevent"], ["gevent"])
    (tmp_path / "program.py").write_text(GREENLETS)
    assert run([python, tmp_path / "program.py"], tmp_path).split() == ["328350", "9", "16", "1", "True"]
