"""Binding a process that runs already (`thole bind --pid`), and real cpusets around it."""
import json
import os
import pathlib
import shutil
import tempfile

import pytest

from binding_tools import ALLOWED, SHOW, Site, cpus_in, needs_two_cpus, site, two_node_machine  # noqa: F401 (site: a fixture)
from run_tools import THOLE, Started, eventually, python

pytestmark = needs_two_cpus

THREE_THREADS = python("""
import sys, threading
end = threading.Event()
for _ in range(2): threading.Thread(target=end.wait, daemon=True).start()
print("up", flush=True)
sys.stdin.readline()
""")


def masks_of(pid):
    return [cpus_in((task / "status").read_text()) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]


def test_every_thread_of_a_process_is_bound(site):
    with Started(THREE_THREADS) as program:
        assert program.line() == "up"
        done = site.run("bind", "--pid", str(program.pid), "--on", "1")
        assert done.returncode == 0, done.stderr
        assert masks_of(program.pid) == [[ALLOWED[1]]] * 3
        assert done.stdout.startswith(f"process {program.pid}: 3 threads on CPUs {ALLOWED[1]}")
        report = json.loads(site.run("bind", "--pid", str(program.pid), "--on", "0", "--json").stdout)
        assert masks_of(program.pid) == [[ALLOWED[0]]] * 3, "it can be bound elsewhere"
        assert (report["threads"], report["got"]) == (3, [{"cpus": str(ALLOWED[0]), "threads": 3}])
        assert report["gpus_by"] == "--on" and report["differences"] == []


def test_threads_that_appear_meanwhile_are_bound_too(site):
    making = python("""
import threading, time
end = threading.Event()
print("up", flush=True)
while True:
    thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
""")
    with Started(making) as program:
        assert program.line() == "up"
        assert site.run("bind", "--pid", str(program.pid), "--on", "1").returncode == 0
        for _ in range(20):
            for task in pathlib.Path(f"/proc/{program.pid}/task").iterdir():
                try:
                    assert cpus_in((task / "status").read_text()) == [ALLOWED[1]]
                except (FileNotFoundError, ProcessLookupError):
                    pass  # it has ended


def test_the_gpus_of_a_process_are_those_of_its_variables_or_that_the_driver_shows(site):
    with Started(THREE_THREADS, env={**site.environment, "CUDA_VISIBLE_DEVICES": "1"}) as program:
        assert program.line() == "up"
        report = json.loads(site.run("bind", "--pid", str(program.pid), "--json").stdout)
        assert (report["gpus_by"], report["got"][0]["cpus"]) == ("its CUDA_VISIBLE_DEVICES", str(ALLOWED[1]))
        machine = two_node_machine()
        machine["gpus"][0]["use"]["processes"] = [{"pid": program.pid, "user": "anna", "kind": "compute", "memory_mib": 100}]
        site.file.write_text(json.dumps(machine))
        report = json.loads(site.run("bind", "--pid", str(program.pid), "--json").stdout)
        assert (report["gpus_by"], report["got"][0]["cpus"]) == ("the driver", str(ALLOWED[0]))


def test_a_process_without_a_known_gpu_is_a_usage_error(site):
    with Started(THREE_THREADS, env=site.environment) as program:
        assert program.line() == "up"
        done = site.run("bind", "--pid", str(program.pid))
        assert done.returncode == 64 and "--on GPU" in done.stderr
    assert "no such process" in site.run("bind", "--pid", str(2**22 - 1), "--on", "0").stderr


def test_a_process_of_somebody_else_names_the_fix():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv (util-linux), to be somebody else")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as open_to_all, Started(THREE_THREADS) as program:
        assert program.line() == "up"
        os.chmod(open_to_all, 0o755)
        site = Site(pathlib.Path(open_to_all), two_node_machine())
        site.words[0] = shutil.copy(THOLE, open_to_all)
        done = site.run("bind", "--pid", str(program.pid), "--on", "1",
                        before=["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"])
        assert done.returncode == 69
        assert "sudo thole bind" in done.stderr


# Real cpusets.


@pytest.fixture
def cpuset():
    """Makes a cpuset of one CPU; joins a process to it. Gone with the test."""
    v1 = pathlib.Path("/sys/fs/cgroup/cpuset")
    v2 = pathlib.Path("/sys/fs/cgroup/cgroup.subtree_control")
    try:
        if (v1 / "cpuset.cpus").exists():
            group = v1 / f"thole-test-{os.getpid()}"
            group.mkdir()
            (group / "cpuset.mems").write_text((v1 / "cpuset.mems").read_text())
        elif v2.exists() and "cpuset" in v2.read_text():
            group = v2.parent / f"thole-test-{os.getpid()}"
            group.mkdir()
        else:
            pytest.skip("no cpuset controller here")
    except OSError as error:
        pytest.skip(f"no cpuset can be made here: {error.strerror}")

    def join(pid, cpu):
        (group / "cpuset.cpus").write_text(str(cpu))
        (group / "cgroup.procs").write_text(str(pid))

    yield join
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
    eventually(lambda: not (group / "cgroup.procs").read_text(), "the cpuset is empty")
    group.rmdir()


def test_a_running_process_in_a_smaller_cpuset_is_reported(site, cpuset):
    machine = two_node_machine()
    machine["gpus"][0]["near_cpus"] = {"node": f"{ALLOWED[0]},{ALLOWED[1]}", "package": f"{ALLOWED[0]},{ALLOWED[1]}"}
    site.file.write_text(json.dumps(machine))
    with Started(THREE_THREADS) as program:
        assert program.line() == "up"
        cpuset(program.pid, ALLOWED[0])
        pid = str(program.pid)
        report = json.loads(site.run("bind", "--pid", pid, "--on", "0", "--json").stdout)
        assert report["got"] == [{"cpus": str(ALLOWED[0]), "threads": 3}]
        assert len(report["differences"]) == 1 and "outside of the cpuset" in report["differences"][0]
        assert site.run("bind", "--pid", pid, "--on", "0", "--strict").returncode == 69
        none = site.run("bind", "--pid", pid, "--on", "1")
        assert none.returncode == 69 and "its cpuset has none of these CPUs" in none.stderr


def test_run_in_a_smaller_cpuset_takes_what_is_left(site, cpuset):
    script = python("import os, subprocess, sys; sys.stdin.readline(); sys.exit(subprocess.run(sys.argv[1:]).returncode)")
    with Started([*script, *site.words, "run", "-g", "2", *SHOW], env=site.environment) as program:
        cpuset(program.pid, ALLOWED[1])
        program.write("\n")
        assert cpus_in(program.line()) == [ALLOWED[1]]
        assert program.wait() == 0
