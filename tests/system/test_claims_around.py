"""What claims inside a claim whose keeper cannot be asked keeps that claim all the same, or says that it does not."""
import contextlib
import os
import pathlib
import platform
import signal
import subprocess

import pytest

import claim_box
import hostile
from claim_box import thole
from run_tools import BUILD, THOLE, Started, children, eventually, gone, python

KEPT_ALONE = "kept by process {} alone: when it ends they are given to others"
NOT_SEEN = "nobody who keeps the GPUs of claim {} is seen from here: when who keeps them ends"

# Python hands no descriptors to what it starts. It ends before what it has started.
STARTS_ONE = """
import os, subprocess, sys
print("up", flush=True)
sys.stdin.readline()
here = os.environ["here"]
with open(here + "/error", "w") as error:
    begun = subprocess.Popen([os.environ["thole"], "run", *sys.argv[1:], "--", "sh", "-c",
        f'echo $THOLE_CLAIM > "{here}/new"; mv "{here}/new" "{here}/runs"; until [ -e "{here}/end" ]; do sleep 0.1; done'],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=error, start_new_session=True)
while not os.path.exists(here + "/runs"):
    assert begun.poll() is None, open(here + "/error").read()
"""
CLOSED = "import ctypes; assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0\n"   # PR_SET_DUMPABLE


@pytest.fixture
def box(tmp_path):
    with claim_box.made(tmp_path, "4xA100", here=str(tmp_path)) as environment:
        yield environment
        (tmp_path / "end").touch()


def is_given(box, *gpus):
    """To somebody else, whatever the driver says of who computes there."""
    done = thole(box, "run", "-q", "--no-wait", "--trust-claims", "--on", ",".join(map(str, gpus)), "--", "true")
    assert done.returncode in (0, 75), done.stderr
    return done.returncode == 0


def keeps_until_it_ends(box, tmp_path):
    """The command inside, whose launcher has ended, keeps both GPUs of the claim around, and they are free after it."""
    assert not is_given(box, 0) and not is_given(box, 1)
    assert "given to others" not in (tmp_path / "error").read_text()
    (tmp_path / "end").touch()
    eventually(lambda: is_given(box, 0, 1), "all is free")


WITHIN = pytest.mark.parametrize("within", [["-g", "1"], ["-g", "2"]], ids=["a part", "the whole"])


@WITHIN
def test_without_a_supervisor_what_claims_inside_keeps_the_claim(box, tmp_path, within):
    with Started([THOLE, "run", "-q", "--no-supervisor", "-g", "2", "--on", "0,1", "--", *python(STARTS_ONE), *within],
                 env=box) as outer:
        assert outer.line() == "up"
        outer.write("go\n")
        assert outer.wait() == 0, outer.process.stderr.read().decode()
    keeps_until_it_ends(box, tmp_path)


@WITHIN
def test_after_a_killed_supervisor_what_claims_inside_keeps_the_claim(box, tmp_path, within):
    with Started([THOLE, "run", "-q", "-g", "2", "--on", "0,1", "--", *python(STARTS_ONE), *within], env=box) as outer:
        assert outer.line() == "up"
        script, = children(outer.pid)
        os.kill(outer.pid, signal.SIGKILL)
        outer.wait()
        outer.write("go\n")
        eventually(lambda: gone(script), "the script ends")
    keeps_until_it_ends(box, tmp_path)


def test_after_a_release_what_claims_inside_keeps_the_claim(box, tmp_path):
    claim = thole(box, "-q", "claim", "-g", "2", "--on", "0,1").stdout.strip()
    words = ["run", "-q", "--no-supervisor", "--in", claim, "--", *python(STARTS_ONE), "-g", "1"]
    with Started([THOLE, *words], env=box) as outer:
        assert outer.line() == "up"
        assert thole(box, "release", claim).returncode == 69
        outer.write("go\n")
        assert outer.wait() == 0, outer.process.stderr.read().decode()
    keeps_until_it_ends(box, tmp_path)


def process_of(box, *words):
    """The process of this box whose command line has all of these words."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            environment = pathlib.Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if f"THOLE_STATE_DIR={box['THOLE_STATE_DIR']}".encode() in environment and all(word.encode() in line for word in words):
            return int(entry)
    return None


def test_what_a_job_claims_inside_has_the_locks_of_its_claim(box, tmp_path):
    """The lane may be killed, and the program end, while it runs on."""
    waits = STARTS_ONE.replace("sys.stdin.readline()", "pass") + "begun.wait()\n"
    assert thole(box, "submit", "-q", "-g", "2", "--on", "0,1", "--", *python(waits), "-g", "1").returncode == 0
    eventually((tmp_path / "runs").exists, "the command inside runs")
    inner = process_of(box, THOLE, "run", "-g", "1")
    nodes = {os.readlink(f"/proc/{inner}/fd/{fd}") for fd in os.listdir(f"/proc/{inner}/fd")}
    kept = {node for node in nodes if node.startswith(f"{tmp_path}/state/gpu.")}
    assert len(kept) == 2, nodes
    (tmp_path / "end").touch()
    assert thole(box, "wait", "1").returncode == 0


def test_an_ancestor_that_lets_nobody_copy_is_told_of(box, tmp_path):
    if os.geteuid() == 0:
        done = subprocess.run(["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "true"], capture_output=True)
        if done.returncode != 0:
            pytest.skip("root may copy from everybody here")
        drop = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]
    else:
        drop = []
    with Started([*drop, THOLE, "run", "-q", "--no-supervisor", "-g", "2", "--on", "0,1", "--", *python(CLOSED + STARTS_ONE),
                  "-g", "1"], env=box) as outer:
        assert outer.line() == "up"
        outer.write("go\n")
        assert outer.wait() == 0, outer.process.stderr.read().decode()
        said = (tmp_path / "error").read_text()
        assert KEPT_ALONE.format(outer.pid) in " ".join(said.split()), said
        assert said.count("alone") == 1, said


LIBRARY_WITHIN = CLOSED + """
import os, subprocess, sys
claims = "import tholepin; tholepin.claim(1); tholepin.claim(1)"
told = "import logging; logging.basicConfig(format='LOGGED %(message)s'); " + claims
for code in (claims, told):
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_a_library_that_claims_inside_says_once_that_it_keeps_nothing(box):
    if os.geteuid() == 0:
        drop = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]
        if subprocess.run([*drop, "true"], capture_output=True).returncode != 0:
            pytest.skip("root may copy from everybody here")
    else:
        drop = []
    library = {"THOLE_LIBRARY": str(BUILD / "libthole.so.0"), "PYTHONPATH": str(pathlib.Path(__file__).parents[2] / "python")}
    with Started([*drop, THOLE, "run", "-q", "--no-supervisor", "-g", "2", "--on", "0,1", "--", *python(LIBRARY_WITHIN)],
                 env={**box, **LIBRARY}) as outer:
        process = outer.pid
        assert outer.wait() == 0
        said = " ".join(outer.process.stderr.read().decode().split())
    caution = "the GPUs of the claim around are " + KEPT_ALONE.format(process)
    assert said.count(caution) == 2, said
    assert said.count("thole: " + caution) == 1 and said.count("LOGGED " + caution) == 1, said


ORPHAN = """
import os, subprocess, time
subprocess.run(["sh", "-c", '(until [ -e "$here/alone" ]; do sleep 0.1; done; '
                '"$thole" run --no-wait -g 1 -- echo ran > "$here/said" 2>&1; '
                'echo $? > "$here/s"; mv "$here/s" "$here/status") > /dev/null 2>&1 &'])
open(os.environ["here"] + "/alone", "w").close()
while not os.path.exists(os.environ["here"] + "/status"):
    time.sleep(0.05)
"""


def test_an_orphan_in_a_claim_without_a_supervisor_claims_inside(box, tmp_path):
    done = thole(box, "run", "-q", "--no-supervisor", "-g", "2", "--", *python(ORPHAN))
    said = (tmp_path / "said").read_text()
    assert done.returncode == 0 and (tmp_path / "status").read_text() == "0\n" and "ran\n" in said, said


def test_another_share_of_a_gpu_is_not_the_claims_own(box, tmp_path):
    mine = thole(box, "-q", "claim", "--on", "0", "--share", "--memory", "4G").stdout.strip()
    other = thole(box, "-q", "claim", "--on", "0", "--share", "--memory", "30G").stdout.strip()
    with Started([THOLE, "run", "-q", "--in", mine, "--", THOLE, "run", "-q", "--in", other, "--share", "--memory", "14G", "--",
                  "sh", "-c", "echo up; exec cat"], env=box) as job:
        assert job.line() == "up"
        done = thole(box, "release", other)
        assert done.returncode == 69, done.stderr
        words = ["run", "-q", "--no-wait", "--trust-claims", "--on", "0", "--share", "--memory", "45G", "--", "true"]
        assert thole(box, *words).returncode == 75
        job.process.stdin.close()
        assert job.wait() == 0
    eventually(lambda: thole(box, *words).returncode == 0, "the other's share is free")


CONTAINER = ["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-ec"]
OF_ITS_OWN = 'mount -t tmpfs -o mode=1777 none /tmp; '


@pytest.mark.parametrize("tmp", [OF_ITS_OWN, ""], ids=["its own tmp", "the tmp in common"])
@pytest.mark.parametrize("kept_by", ["claim", "run", "run --no-supervisor"])
def test_a_container_of_the_claim_claims_inside(tmp, kept_by):
    with hostile.make("plain", 3) as lab:
        lab.init()
        if kept_by == "claim":
            claim = lab.thole("alice", "-q", "claim", "-g", "2", check=True).stdout.strip()
        else:
            words = [*kept_by.split(), "-q", "-g", "2", "--", "sh", "-c", "echo $THOLE_CLAIM; exec cat"]
            outer = lab.start("alice", lab.program, *words)
            claim = outer.line().strip()
        assert len(claim) == 16
        uid = hostile.USERS["alice"]
        for gpus in "12":
            done = lab.run("root", *CONTAINER, tmp + f"exec setpriv --reuid={uid} --regid={uid} --clear-groups -- "
                           f"env THOLE_CLAIM={claim} {lab.program} run --no-wait -g {gpus} -- echo ran")
            assert done.returncode == 0 and done.stdout.endswith("ran\n"), done.stderr
            told = NOT_SEEN.format(claim) in " ".join(done.stderr.split())
            assert told == (bool(tmp) or kept_by == "run --no-supervisor"), done.stderr


def descriptors_of_locks(pid, tmp_path):
    count = 0
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):     # closed since it was listed
            count += os.readlink(entry).startswith(f"{tmp_path}/state/gpu.")
    return count


def test_the_end_of_one_claim_inside_takes_nothing_from_another_of_the_same_process(box, tmp_path):
    claim = thole(box, "-q", "claim", "-g", "2", "--on", "0,1").stdout.strip()
    script = 'touch "$here/runs.{}"; until [ -e "$here/end" ] || [ -e "$here/end.{}" ]; do sleep 0.1; done'
    with Started([THOLE, "map", "-q", "-g", "1", "--", "sh", "-c", script, ":::", "first", "second"],
                 env={**box, "THOLE_CLAIM": claim}) as lanes:
        eventually(lambda: len(list(tmp_path.glob("runs.*"))) == 2, "both run")
        assert thole(box, "release", claim).returncode == 69
        both = descriptors_of_locks(lanes.pid, tmp_path)
        (tmp_path / "end.first").touch()
        eventually(lambda: descriptors_of_locks(lanes.pid, tmp_path) < both, "the first lane has let go")
        assert not is_given(box, 0) and not is_given(box, 1)
        (tmp_path / "end").touch()
        assert lanes.wait() == 0
    eventually(lambda: is_given(box, 0, 1), "all is free")


SIDE_BY_SIDE = """
import os, sys, tholepin
outside = dict(os.environ)
first = tholepin.claim(1)
os.environ.clear(); os.environ.update(outside)       # so the second is none within the first
print("up")
sys.stdin.readline()
second = tholepin.claim(1)
first.release()
print("released")
sys.stdin.read()
"""


# Refuses pidfd_getfd (438), as containers do.
COPIES_FROM_NOBODY = """
import ctypes, struct
libc = ctypes.CDLL(None)
words = [(0x20, 0, 0, 0), (0x15, 0, 1, 438), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
"""


LIBRARY = {"PYTHONPATH": str(hostile.SOURCE / "python"), "THOLE_LIBRARY": str(BUILD / "libthole.so.0")}


@pytest.mark.parametrize("before", ["", COPIES_FROM_NOBODY], ids=["", "without pidfd_getfd"])
@pytest.mark.parametrize("outer", ["claim", "library"])
def test_nor_does_one_claim_of_a_library(box, outer, before):
    if before and platform.machine() != "x86_64":
        pytest.skip("the number of the refused call is that of x86_64")
    script, inside = before + SIDE_BY_SIDE, {}
    if outer == "claim":
        inside["THOLE_CLAIM"] = thole(box, "-q", "claim", "-g", "2", "--on", "0,1").stdout.strip()
    else:
        script = before + "import tholepin\nouter = tholepin.claim(2, on=[0, 1])\n" + SIDE_BY_SIDE.replace(
            "first.release", "outer.release(); first.release")
    with Started(python(script), env={**box, **LIBRARY, **inside}) as program:
        assert program.line() == "up", program.process.stderr.read().decode()
        assert outer == "library" or thole(box, "release", inside["THOLE_CLAIM"]).returncode == 69
        program.write("go\n")
        assert program.line() == "released"
        assert not is_given(box, 0) and not is_given(box, 1)
        program.process.stdin.close()
        assert program.wait() == 0
    assert is_given(box, 0, 1)


CLOSES_WHAT_IT_HAS_INHERITED = """
import os, sys, tholepin
before = [int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2]
claim = tholepin.claim(1)
for fd in before:
    try: os.close(fd)
    except OSError: pass
print("up")
sys.stdin.read()
"""


def test_what_was_inherited_may_be_closed_once_a_library_has_claimed_inside(box):
    with Started([THOLE, "run", "-q", "--no-supervisor", "-g", "2", "--on", "0,1", "--", *python(CLOSES_WHAT_IT_HAS_INHERITED)],
                 env={**box, **LIBRARY}) as job:
        assert job.line() == "up", job.process.stderr.read().decode()
        assert not is_given(box, 0) and not is_given(box, 1)
        job.process.stdin.close()
        assert job.wait() == 0
    assert is_given(box, 0, 1)


# The claim's own process (sys.argv[1]: what its parent does when it was killed) has left a child that has inherited the locks,
# and a command in the claim that has none of them.
LEFT_BEHIND = """
import os, signal, subprocess, sys
program, inside = os.environ["THOLE_PROGRAM"], sys.argv[2:]
owner = os.fork()
if owner == 0:
    import tholepin
    claim = tholepin.claim(2)
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    subprocess.run(["sh", "-c", '(until [ -e /tmp/go ]; do sleep 0.1; done; "$@" > /tmp/said 2>&1; echo $? > /tmp/s; '
                                'mv /tmp/s /tmp/status) > /dev/null 2>&1 < /dev/null &', "sh", *inside])
    os.kill(os.getpid(), signal.SIGKILL)
os.waitid(os.P_PID, owner, os.WEXITED | (os.WNOWAIT if sys.argv[1] == "nothing" else 0))
print("up")
sys.stdin.read()
"""
OF_A_LIBRARY = "import tholepin; tholepin.claim(1, wait=0); print('ran')"


@pytest.mark.parametrize("surrounding", ["plain", "hidepid", "container"])
@pytest.mark.parametrize("parent_does", ["wait", "nothing"])
@pytest.mark.parametrize("by", ["run", "library"])
def test_nothing_begins_from_elsewhere_in_a_claim_whose_own_process_has_ended(surrounding, parent_does, by):
    with hostile.make(surrounding, 2) as lab:
        lab.init()
        inside = [lab.program, "run", "--no-wait", "-g", "1", "--", "echo", "ran"]
        if by == "library":
            inside = [hostile.interpreter(), "-c", OF_A_LIBRARY]
        left = lab.start_python("alice", LEFT_BEHIND, parent_does, *inside)
        lab.run("alice", "touch", "/tmp/go", check=True)
        status = eventually(lambda: lab.run("alice", "cat", "/tmp/status").stdout, "it has ended").strip()
        said = lab.run("alice", "cat", "/tmp/said").stdout
        assert status == ("69" if by == "run" else "1") and "can be asked" in said and "ran" not in said.split(), said
        assert lab.thole("bob", "run", "-q", "--no-wait", "--trust-claims", "-g", "2", "--", "true").returncode == 75
        left.process.stdin.close()
        assert left.wait() == 0
