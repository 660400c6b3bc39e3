"""A command gets a cgroup of its own where `thole run` may make one, and is ended by it; everywhere else it is as without."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from run_programs import program, run  # noqa: F401 (fixtures)
from run_tools import PROBE, Started, eventually, gone, only_child

MOUNTS = [pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/fs/cgroup/unified")]


def unified():
    """Where this process is in the unified hierarchy, as a directory in which cgroups can be made."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to hand a cgroup over")
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::/")), None)
    for mount in MOUNTS if path else []:
        if (mount / "cgroup.controllers").exists() and os.access(mount / path.lstrip("/"), os.W_OK):
            return mount / path.lstrip("/")
    pytest.skip("no unified hierarchy here that can be written")


class Delegated:
    """A cgroup given to `user`: to root by systemd's mark, to others by ownership, as systemd does."""

    def __init__(self, user):
        self.path = unified() / f"thole-test-{os.getpid()}-{user}"
        self.user = user
        try:
            self.path.mkdir()
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        if user == 0:
            os.setxattr(self.path, "user.delegate", b"1")
        for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
            os.chown(self.path / name, user, user)

    def enter(self):
        """In a child, before its program: this cgroup, and this user."""
        (self.path / "cgroup.procs").write_text("0")
        if self.user:
            os.setgroups([])
            os.setresgid(self.user, self.user, self.user)
            os.setresuid(self.user, self.user, self.user)

    def groups(self):
        return [entry.name for entry in self.path.iterdir() if entry.is_dir()]


@pytest.fixture(params=[0, 65534], ids=["root", "a user"])
def delegated(request):
    group = Delegated(request.param)
    yield group
    (group.path / "cgroup.kill").write_text("1")
    eventually(lambda: "populated 0" in (group.path / "cgroup.events").read_text(), "the cgroup is empty")
    for entry in group.groups():
        (group.path / entry).rmdir()
    group.path.rmdir()


@pytest.fixture
def probe():
    """The process module alone, where every user can run it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        yield [shutil.copy2(PROBE, folder + "/run_probe")]


def cgroup_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line[3:] for line in lines if line.startswith("0::/"))


@pytest.mark.parametrize("umask", [0o022, 0o777], ids=oct)
def test_the_command_is_born_in_a_cgroup_of_its_own_which_goes_with_it(delegated, probe, umask):
    with Started(probe + ["sh", "-c", "echo ready; read line; exit 3"], preexec_fn=delegated.enter, umask=umask) as job:
        assert job.line() == "ready"
        ours = cgroup_of(job.pid)
        assert ours.endswith(delegated.path.name)
        assert cgroup_of(only_child(job.pid)) == f"{ours}/thole-{job.pid}"
        job.write("end\n")
        assert job.wait() == 3
    assert delegated.groups() == []


# Never still: whoever looks for its members finds some that have forked and gone.
RESTLESS = "trap '' TERM; echo ready; f() { f & exit 0; }; f & exec sleep 1000000"


def test_what_forks_without_end_is_killed_at_once(delegated, probe):
    for _ in range(10):  # whether the last one is waited for in time is a matter of luck
        with Started(probe + ["--patience", "1", "sh", "-c", RESTLESS], preexec_fn=delegated.enter) as job:
            assert job.line() == "ready"
            os.kill(only_child_but(job.pid), signal.SIGKILL)
            assert job.wait() == -signal.SIGKILL
            assert job.process.stdout.read() == b""  # nobody has the other end any more
        assert delegated.groups() == []


def only_child_but(pid):
    """The command: the first process that was born in the cgroup and still is there."""
    procs = f"/sys/fs/cgroup/unified{cgroup_of(pid)}/thole-{pid}/cgroup.procs"
    if not os.path.exists(procs):
        procs = f"/sys/fs/cgroup{cgroup_of(pid)}/thole-{pid}/cgroup.procs"
    return min(int(line) for line in pathlib.Path(procs).read_text().split())


def test_a_killed_supervisor_leaves_a_cgroup_that_the_next_one_sweeps(delegated, probe):
    with Started(probe + ["sh", "-c", "echo $$; read line"], preexec_fn=delegated.enter) as job:
        command = int(job.line())
        job.kill(signal.SIGKILL)
        job.wait()
        assert not gone(command) and delegated.groups() == [f"thole-{job.pid}"]
        job.write("end\n")
        eventually(lambda: gone(command), "the command ends")
    assert subprocess.run(probe + ["true"], preexec_fn=delegated.enter).returncode == 0
    assert delegated.groups() == []


def test_a_run_inside_a_run_has_its_own_below(delegated, probe):
    inner = probe + ["sh", "-c", "cat /proc/self/cgroup"]
    shown = subprocess.run(probe + inner, preexec_fn=delegated.enter, capture_output=True, text=True).stdout
    depth = next(line for line in shown.splitlines() if line.startswith("0::/")).count("/thole-")
    assert depth - 1 == (2 if delegated.user else 1)  # root's needs systemd's mark, which ours has not
    assert delegated.groups() == []


def test_without_delegation_the_command_stays_where_run_is(run):
    with Started(run + ["sh", "-c", "echo ready; read line"]) as job:
        assert job.line() == "ready"
        if "thole-" not in cgroup_of(os.getpid()) and os.geteuid() == 0:
            assert cgroup_of(only_child(job.pid)) == cgroup_of(job.pid)
