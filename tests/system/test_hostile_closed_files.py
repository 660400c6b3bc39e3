"""What is closed to a user is named, and not what lies around it. Never as root: nothing is closed to root."""
import pytest

from hostile import end, lab  # noqa: F401

pytestmark = pytest.mark.parametrize("lab", ["plain"], indirect=True)


@pytest.fixture
def place(lab):  # noqa: F811
    """A folder of alice's."""
    lab.init()
    folder = f"{lab.folder}/home/alice/place"
    lab.run("alice", "mkdir", folder, check=True)
    return folder


@pytest.mark.parametrize("closed", ["below/file", "below/folder"])
def test_a_snapshot_names_what_it_cannot_read(lab, place, closed):  # noqa: F811
    lab.run("alice", "sh", "-c", f"cd {place}; mkdir -p below/folder; touch below/file; chmod 0 {closed}", check=True)
    done = lab.thole("alice", "submit", "-C", place, "--snapshot", "true")
    assert done.returncode == 69 and f"cannot read: {place}/{closed}: Permission denied" in done.stderr, done.stderr


def test_an_interpreter_in_a_closed_home_cannot_be_run(lab, place):  # noqa: F811
    interpreter = f"{lab.folder}/home/bob/python"
    lab.run("bob", "sh", "-c", f"chmod 0700 {lab.folder}/home/bob; ln -s /bin/sh {interpreter}", check=True)
    lab.run("alice", "sh", "-c", f"cd {place}; echo '#!{interpreter}' > it; chmod +x it", check=True)
    for verb in ("run", "submit"):
        done = lab.thole("alice", verb, f"{place}/it")
        assert done.returncode == 126 and "chmod" not in done.stderr, done.stderr
        assert f"cannot be run: {place}/it: {interpreter}: Permission denied" in done.stderr, done.stderr


LEASE = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("up", flush=True)
sys.stdin.read()
"""


def test_a_snapshot_waits_for_nobody_who_keeps_a_file_from_being_read(lab, place):  # noqa: F811
    lab.run("alice", "chmod", "1777", place, check=True)
    mallory = lab.start_python("mallory", LEASE, f"{place}/leased")   # opening it would wait 45 s for her
    done = lab.thole("alice", "submit", "-C", place, "--snapshot", "true", timeout=20)
    assert done.returncode == 69 and f"cannot read: {place}/leased" in done.stderr, done.stderr
    end(mallory)
