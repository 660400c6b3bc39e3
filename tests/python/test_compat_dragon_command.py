"""The command `dragon`: its options, which hosts it takes, and how it comes into a virtual environment and out of it."""
import os
import subprocess
import sys
import venv

import pytest
from compat_tools import LIMIT, compat

HERE = os.uname().nodename


def dragon(*words, **more):
    return subprocess.run(
        compat("--", "python3", "-m", "dragon", *map(str, words)), capture_output=True, text=True, timeout=LIMIT, **more
    )


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import sys, dragon.native.machine as machine\nprint(sys.argv[1:], machine.System().nnodes)\n")
    return path


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-s",),
        ("-m",),
        ("-N", 0),
        ("--nodes=1",),
        ("--hostlist", "localhost"),
        ("--hostlist", f"{HERE},{HERE}", "-w", "ssh"),
        ("--hostlist", f"{HERE},far", "-N", "1"),
        ("-w", "drun", "--hostlist", HERE),
        ("-l", "DEBUG", "-t", "tcp", "-p", "7575", "--no-label", "-T", "1", "-r", "--network-prefix", "eth"),
    ],
)
def test_options_of_one_host_are_taken(program, options):
    done = dragon(*options, program, "-N", "5", "--hostlist", "of-the-program")
    assert (done.stdout, done.stderr) == ("['-N', '5', '--hostlist', 'of-the-program'] 1\n", "")


@pytest.mark.parametrize(
    "options, problem",
    [
        (("--hostlist", "far"), "this is another host: far"),
        (("--hostlist", f"{HERE},far"), f"2 hosts: {HERE}, far"),
        (("-N", "2"), "-N 2: there is one host"),
        (("-w", "ssh"), "-w ssh: which hosts?"),
        (("-w", "slurm"), "-w slurm: this is no job of Slurm"),
        (("-s", "-w", "slurm"), "-s is this host alone"),
        (("-s", "--hostlist", HERE), "-s is this host alone"),
        (("-s", "-m"), "not allowed with argument"),
        (("-w", "flux"), "invalid choice: 'flux'"),
        (("-N", "-1"), "expected a number of 0 or more, got '-1'"),
        (("-p", "80"), "80 must be in port range"),
        (("--hostfile", "/nowhere/hosts"), "the hosts cannot be read: /nowhere/hosts"),
    ],
)
def test_other_hosts_and_wrong_options_are_errors(program, options, problem):
    done = dragon(*options, program)
    assert (done.returncode, done.stdout) == (64, "") and done.stderr.startswith("dragon: ") and problem in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_of_hosts(program, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{HERE}\n\n")
    assert dragon("--hostfile", hosts, program).stdout == "[] 1\n"
    hosts.write_text(f"{HERE}\nfar\n")
    assert dragon("--hostfile", hosts, program).returncode == 64


@pytest.mark.parametrize("name", ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"])
def test_a_job_of_slurm(monkeypatch, program, name):
    monkeypatch.setenv(name, "1")
    assert dragon("-w", "slurm", program).stdout == dragon(program).stdout == "[] 1\n"
    monkeypatch.setenv(name, "4")
    for options in ((), ("-w", "slurm"), ("-w", "slurm", "-N", "2")):
        done = dragon(*options, program)
        assert done.returncode == 64 and "hosts\n" in done.stderr and "-N 1 or -s takes one" in done.stderr
    assert dragon("-N", "5", program).stderr.startswith("dragon: -N 5: there are 4\n")
    assert dragon("-N", "1", program).stdout == dragon("-s", program).stdout == "[] 1\n"


def test_a_job_of_pbs(monkeypatch, program, tmp_path):
    hosts = tmp_path / "nodes"
    hosts.write_text("one\none\n")
    monkeypatch.setenv("PBS_NODEFILE", str(hosts))
    assert dragon(program).stdout == dragon("-w", "pbs+pals", program).stdout == "[] 1\n"
    hosts.write_text("one\ntwo\n")
    assert dragon(program).returncode == dragon("-w", "pbs+pals", program).returncode == 64
    assert dragon("-s", program).stdout == "[] 1\n"
    monkeypatch.delenv("PBS_NODEFILE")
    assert "-w pbs+pals: this is no job of PBS" in dragon("-w", "pbs+pals", program).stderr


def test_what_is_run(tmp_path):
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\necho \"script $1\"; exit 3\n")
    script.chmod(0o755)
    done = dragon("./run", "word", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("script word\n", 3), "an executable file is run"
    assert dragon("run", "word", cwd=tmp_path).stdout == "script word\n"
    script.write_text("print('by Python')\n")
    script.chmod(0o644)
    assert dragon("run", cwd=tmp_path).stdout == "by Python\n"
    assert dragon(sys.executable, "-c", "print(1)").stdout == "1\n"
    assert dragon("no-such-program").stderr == "dragon: there is no such program: no-such-program\n"
    done = dragon()
    assert done.returncode == 64 and "PROG" in done.stderr
    assert dragon("--version").stdout == "Dragon Version 0.15.0, thole's drop-in\n"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    assert (dragon(script).returncode, dragon(script).stderr) == (126, f"dragon: {script}: No such file or directory\n")


# ---- In a virtual environment ----


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """One that finds the package under test."""
    import tholepin

    made = tmp_path / "env"
    venv.create(made, symlinks=True)
    packages = os.path.dirname(os.path.dirname(os.path.abspath(tholepin.__file__)))
    monkeypatch.setenv("PYTHONPATH", packages)
    return made


def called(environment, word):
    return subprocess.run(
        [environment / "bin/python", "-m", "tholepin.compat", word], capture_output=True, text=True, timeout=LIMIT
    )


def test_the_command_comes_and_goes(environment, program):
    command = environment / "bin/dragon"
    for _ in range(2):  # a second time renews it
        assert called(environment, "--install-dragon").stdout == f"{command}\n"
    done = subprocess.run([command, "-s", program, "word"], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "['word'] 1\n", done.stderr
    assert called(environment, "--remove-dragon").stdout == f"{command}\n" and not command.exists()
    gone = called(environment, "--remove-dragon")
    assert (gone.returncode, gone.stderr) == (64, f"thole: there is none of thole's: {command}\n")


@pytest.mark.parametrize("kind", ["file", "link", "folder", "dangling"])
def test_a_foreign_dragon_stays(environment, kind, tmp_path):
    command = environment / "bin/dragon"
    if kind == "file":
        command.write_text("#!/bin/sh\necho foreign\n")
    elif kind == "folder":
        command.mkdir()
    else:
        theirs = tmp_path / "theirs"
        if kind == "link":
            called(environment, "--install-dragon")
            os.rename(command, theirs)  # even where it leads to one of thole's
        command.symlink_to(theirs)
    before = os.lstat(command).st_ino, os.lstat(command).st_mtime_ns
    for word in ("--install-dragon", "--remove-dragon"):
        done = called(environment, word)
        assert done.returncode == 64 and "there is a dragon that is not thole's; it stays" in done.stderr
        assert str(command) in done.stderr and "pip uninstall dragonhpc" in done.stderr
    assert (os.lstat(command).st_ino, os.lstat(command).st_mtime_ns) == before


def test_a_python_in_no_environment_gets_no_command(environment):
    outside = os.path.realpath(environment / "bin/python")
    done = subprocess.run([outside, "-m", "tholepin.compat", "--install-dragon"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 64 and "this Python is in no virtual environment" in done.stderr
    assert "python -m venv" in done.stderr


def test_the_real_ones_command_runs_the_drop_in_below_thole_compat(program, tmp_path):
    theirs = tmp_path / "dragon"
    theirs.write_text(f"#!{sys.executable}\nimport sys\nfrom dragon.launcher.launch_selector import main\nsys.exit(main())\n")
    theirs.chmod(0o755)
    done = subprocess.run(compat("--", theirs, "-s", program), capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "[] 1\n", done.stderr
