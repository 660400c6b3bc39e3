"""What runs inside a claim that it cannot claim within never waits for that claim's GPUs: it is told whose they are (69)."""
import json
import shutil
import subprocess

import pytest

import claim_box
import hostile
from claim_box import thole
from queue_tools import Queue
from run_tools import THOLE, Started, eventually, python

# Python hands no descriptors to what it starts.
FROM_PYTHON = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
NEW_USER_NAMESPACE = ["unshare", "-U", "-r"]
FROM = pytest.mark.parametrize("start", [[], python(FROM_PYTHON)], ids=["with its locks", "without descriptors"])


@pytest.fixture
def box(tmp_path):
    with claim_box.made(tmp_path, "2xA100") as environment:
        yield environment


def told(done):
    return " ".join(done.stderr.split())


@FROM
@pytest.mark.parametrize("surrounding", ["plain", "hidepid"])
def test_root_inside_anothers_claim_is_told_whose_it_is(surrounding, start):
    with hostile.make(surrounding, 4) as lab:
        lab.init()
        claim = lab.thole("alice", "-q", "claim", "-g", "2", check=True).stdout.strip()
        for words in (["-g", "1"], ["--no-wait", "-g", "2"], ["--dry-run", "-g", "1"]):
            done = lab.thole("root", "run", "-q", "--in", claim, "--", *start, lab.program, "run", *words, "--", "true")
            assert done.returncode == 69, done.stderr
            assert f"this runs inside claim {claim} of alice, and only its owner claims within it" in told(done)
            assert "has ended:" not in done.stderr
        why = lab.thole("root", "run", "-q", "--in", claim, "--", *start, lab.program, "why", "-g", "1")
        assert f"claim {claim} of alice" in " ".join((why.stdout + why.stderr).split()), why.stdout
        unset = [f"--unset={name}" for name in ("THOLE_CLAIM", "THOLE_GPUS", "CUDA_VISIBLE_DEVICES")]
        beside = lab.thole("root", "run", "-q", "--in", claim, "--", *start, "env", *unset, lab.program, "run", "-q",
                           "--no-wait", "-g", "2", "--", "echo", "beside")
        assert beside.stdout == "beside\n", beside.stderr


@pytest.mark.parametrize("start", ['exec "$0" run -q -g 2 -- bash -c', 'eval "$("$0" claim -q -g 2 --shell)"; bash -c'],
                         ids=["run", "claim --shell"])
def test_who_waits_inside_for_a_job_of_the_queue_that_wants_the_same_gpus_is_told(tmp_path, start):
    queue = Queue(tmp_path, "2xA100")
    inside = ('"$0" submit -n inner -g 1 -- true; "$0" wait --timeout 0.2s inner; "$0" submit -q -g 0 -- true; '
              '"$0" wait --timeout 30s last; echo "$THOLE_CLAIM"')
    done = subprocess.run(["bash", "-c", f"{start} '{inside}' \"$0\"", THOLE], env=queue.env, cwd=queue.work,
                          capture_output=True, text=True, timeout=60)
    claim = done.stdout.split()[-1]
    assert f"job 1 starts when claim {claim}, inside which this runs, has ended" in told(done)
    assert told(done).count(f"job 1 waits for GPUs of claim {claim}, inside which this waits") == 1, done.stderr
    assert "job 2" not in done.stderr, "one without a GPU waits for nobody"
    queue("wait", "inner")
    beside = queue.run("run", "-q", "-g", "1", "sh", "-c", f"{THOLE} submit -q -g 1 true; {THOLE} wait")
    assert beside.returncode == 0 and "claim" not in beside.stderr, "there is another GPU for it"


def test_in_a_user_namespace_of_ones_own_ones_claim_is_told():
    if not shutil.which("unshare") or subprocess.run([*NEW_USER_NAMESPACE, "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    with hostile.make("plain", 2) as lab:
        # Of her own: /run/thole refuses there whom it does not know.
        place = {"THOLE_STATE_DIR": str(lab.folder / "home" / "alice" / "state")}
        inside = [*NEW_USER_NAMESPACE, lab.program, "run", "-g", "1", "--", "true"]
        outer = ["run", "-q", "-g", "2", "--", "sh", "-c", 'echo $THOLE_CLAIM; exec "$@"', "sh"]
        done = lab.thole("alice", *outer, *inside, **place)
        assert done.returncode == 69, done.stderr
        assert f"this runs inside claim {done.stdout.strip()}, which was made outside of this user namespace" in told(done)


CLOSING = "import os, sys; os.closerange(3, 1000); os.execvp(sys.argv[1], sys.argv[1:])"    # as tcsh does


@pytest.mark.parametrize("start", [[], python(FROM_PYTHON), python(CLOSING), python(CLOSING) + python(FROM_PYTHON)],
                         ids=["with its locks", "from Python", "from a shell that closes all", "from Python in that"])
@pytest.mark.parametrize("outer", ["run", "map"])
def test_a_claim_around_that_nothing_names_is_told(box, outer, start):
    inside = ["sh", "-c", 'echo $THOLE_CLAIM; exec env --unset=THOLE_CLAIM --unset=CUDA_VISIBLE_DEVICES "$@"', "sh", *start,
              THOLE, "run", "-g", "1", "--", "true"]
    if outer == "run":
        done = thole(box, "run", "-q", "-g", "2", "--", *inside)
        assert done.returncode == 69, done.stderr
    else:
        done = thole(box, "map", "-q", "-g", "2", "--", *inside, ":::", "")
        assert done.returncode == 1, done.stderr
    claim = done.stdout.strip()
    assert f"this runs inside claim {claim}, which THOLE_CLAIM does not name" in told(done)
    assert f"export THOLE_CLAIM={claim}" in told(done)


def in_shell(box, script, **more):
    """Runs this in a shell with a claim of its own, whose id is $claim, and that has lost its variables."""
    unset = 'claim=$THOLE_CLAIM; unset THOLE_CLAIM THOLE_GPUS CUDA_VISIBLE_DEVICES'
    return subprocess.run(["bash", "-c", f'eval "$("$thole" claim -q -g 2 --shell)"; {unset}; echo $claim; {script}'], env=box,
                          capture_output=True, text=True, timeout=60, **more)


EMPTY = 'env -i thole="$thole" THOLE_STATE_DIR="$THOLE_STATE_DIR" THOLE_MACHINE="$THOLE_MACHINE" "$(which bash)" -c '


@pytest.mark.parametrize("words", ["run -g 1 -- true", "run --no-wait -g 2 -- true", "run --dry-run -g 1 -- true",
                                   "run --share --memory 1G -- true", "claim -g 1", "map -g 1 -- true ::: 1"])
@pytest.mark.parametrize("start", ["", f"{EMPTY} '", "python3 -c '"], ids=["unset", "env -i", "from Python"])
def test_a_shell_that_has_lost_its_claim_is_told(box, start, words):
    command = f'"$thole" {words}'
    if start.startswith("python3"):
        command = f'import os, subprocess, sys; sys.exit(subprocess.run([os.environ["thole"], *"{words}".split()]).returncode)'
    done = in_shell(box, f"{start}{command}{chr(39) if start else ''}")
    claim = done.stdout.strip()
    assert done.returncode == 69, done.stderr
    assert f"this runs inside claim {claim}, which THOLE_CLAIM does not name" in told(done)
    assert f"export THOLE_CLAIM={claim}; to end it: thole release {claim}" in told(done)


def test_what_is_told_to_a_shell_that_has_lost_its_claim_helps(box):
    done = in_shell(box, 'export THOLE_CLAIM=$claim; "$thole" run -q -g 1 -- echo within; unset THOLE_CLAIM; '
                         '"$thole" release -q $claim; "$thole" run -q -g 2 -- echo after')
    assert done.stdout.split()[1:] == ["within", "after"], done.stdout + done.stderr


def test_who_is_not_below_the_shell_waits_for_its_claim(box):
    with Started(["bash", "-c", 'eval "$("$thole" claim -q -g 2 --shell)"; echo up; read word'], env=box) as shell:
        assert shell.line() == "up"
        assert thole(box, "run", "-q", "--wait", "0.1s", "-g", "1", "--", "true").returncode == 124
        shell.process.stdin.close()
        assert thole(box, "run", "-q", "-g", "2", "--", "echo", "ran").stdout == "ran\n"


def test_a_claim_for_a_process_that_is_no_shell_is_waited_for_below_it(box):
    done = subprocess.run(["bash", "-c", '"$thole" claim -q -g 2 --time 1h --pid $$; "$thole" run -q --wait 0.1s -g 1 -- true'],
                          env=box, capture_output=True, text=True, timeout=60)
    assert done.returncode == 124, done.stderr


def test_another_gpu_than_those_of_the_shell_is_waited_for(box):
    other = thole(box, "-q", "claim", "--on", "1").stdout.strip()
    lost = "unset THOLE_CLAIM CUDA_VISIBLE_DEVICES"
    done = subprocess.run(["bash", "-c", f'eval "$("$thole" claim -q --on 0 --shell)"; {lost}; '
                                         f'"$thole" run -q --wait 0.1s true; echo $?; '
                                         f'"$thole" release -q {other}; "$thole" run -q -- echo ran'],
                          env=box, capture_output=True, text=True, timeout=60)
    assert done.stdout == "124\nran\n", done.stdout + done.stderr


def test_of_claims_within_claims_the_machines_one_is_told(box):
    """A shell's claim within a run within a shell's claim: who has lost them all is told of the outermost."""
    inner = 'eval "$("$0" claim -q -g 1 --shell)"; unset THOLE_CLAIM CUDA_VISIBLE_DEVICES; "$0" run -g 1 -- true'
    outer = f'eval "$("$0" claim -q -g 2 --shell)"; echo $THOLE_CLAIM; "$0" run -q -g 2 -- bash -c \'{inner}\' "$0"; exit $?'
    done = subprocess.run(["bash", "-c", outer, THOLE], env=box, capture_output=True, text=True, timeout=60)
    assert done.returncode == 69 and f"this runs inside claim {done.stdout.strip()}, which" in told(done), done.stderr


def as_root_in_the_shell_of(lab, user, script):
    """Runs this as root below a shell of hers with a claim of her own, as sudo does; $claim is its id."""
    sudo = lab.folder / "sudo"
    shutil.copy(shutil.which("setpriv"), sudo)
    sudo.chmod(0o4755)
    unset = "--unset=THOLE_CLAIM --unset=CUDA_VISIBLE_DEVICES"
    become = f"{sudo} --reuid=0 --regid=0 --clear-groups env {unset} claim=$THOLE_CLAIM"
    return lab.run(user, "bash", "-c", f'eval "$({lab.program} claim -q -g 2 --shell)"; echo $THOLE_CLAIM; '
                                       f"{become} bash -c '{script}'; exit $?")


@pytest.mark.parametrize("surrounding", ["plain", "hidepid", "container"])
def test_root_in_anothers_shell_is_told_whose_claim_it_is(surrounding):
    with hostile.make(surrounding, 2) as lab:
        lab.init()
        done = as_root_in_the_shell_of(lab, "alice", f"{lab.program} run -g 1 -- true")
        claim = done.stdout.strip()
        assert done.returncode == 69, done.stderr
        assert f"this runs inside claim {claim} of alice, and only its owner claims within it" in told(done)
        assert f"use its GPUs as they are; to end it: thole release {claim}" in told(done)
        release = as_root_in_the_shell_of(lab, "alice", f"{lab.program} release; THOLE_CLAIM=$claim {lab.program} release")
        claim = release.stdout.strip()
        assert release.returncode == 69 and f"{claim} alice thole claim for shell" in told(release), release.stderr
        assert f"claim {claim} is alice" in told(release) and f"to end it: thole release {claim}" in told(release)


# Takes the locks and looks at a process as who keeps a claim for that shell does.
PRETENDS = """
import ctypes, fcntl, glob, os, sys
ctypes.CDLL(None).prctl(15, b"thole-holder-sh", 0, 0, 0)
kept = [os.open(path, os.O_RDONLY | os.O_NONBLOCK) for path in glob.glob("/run/thole/gpu.*")]
for fd in kept:
    fcntl.flock(fd, fcntl.LOCK_EX)
looks_at = os.pidfd_open(int(sys.argv[1]))
print("up")
sys.stdin.read()
"""


def test_nobody_takes_a_claim_for_anothers_shell():
    with hostile.make("plain", 2) as lab:
        lab.init()
        waits = f"{lab.program} run -q --wait 0.1s -g 1 -- true"
        with lab.start("root", "bash", "-c", f"echo $$; read word; {waits}; echo $?") as shell:
            with lab.start_python("mallory", PRETENDS, shell.line()):
                shell.write("go\n")
                assert shell.line() == "124"


def test_who_waits_for_another_than_the_claim_around_waits(box):
    other = thole(box, "-q", "claim", "--on", "1").stdout.strip()
    inner = f"env --unset=THOLE_CLAIM --unset=CUDA_VISIBLE_DEVICES {THOLE} run -q -g 1"
    done = thole(box, "run", "-q", "--on", "0", "--", "sh", "-c",
                 f"{inner} --wait 0.1s -- true; echo $?; {THOLE} release {other} > /dev/null; {inner} -- echo ran")
    assert done.stdout == "124\nran\n", done.stdout + done.stderr


def test_who_lost_the_claim_of_a_map_waits_for_its_other_lanes(box, tmp_path):
    script = (f'if [ {{}} = b ]; then touch {tmp_path}/b; until [ -e {tmp_path}/end ]; do sleep 0.05; done; exit 0; fi; '
              f'until [ -e {tmp_path}/b ]; do sleep 0.05; done; other=$((1 - CUDA_VISIBLE_DEVICES)); '
              f'env --unset=THOLE_CLAIM --unset=CUDA_VISIBLE_DEVICES {THOLE} run -q --on $other --wait 0.1s -- true; '
              f'echo $? > {tmp_path}/status; touch {tmp_path}/end')
    done = thole(box, "map", "-q", "-g", "1", "--on", "0,1", "--", "sh", "-c", script, ":::", "a", "b")
    assert done.returncode == 0 and (tmp_path / "status").read_text() == "124\n", done.stderr


def test_a_job_that_is_submitted_inside_waits_in_line_for_the_claim_around(box, tmp_path):
    """Its runner was started inside, too, but nobody waits for that."""
    def log():
        return "".join(path.read_text() for path in (tmp_path / "queue").glob("runner.log"))

    submits = f"{THOLE} submit -q -g 2 true; exec cat"
    with Started([THOLE, "run", "-q", "--on", "0", "--", "sh", "-c", submits], env=box) as outer:
        assert outer.line() == "1"
        eventually(lambda: json.loads(thole(box, "status", "--json").stdout)["queue"],
                   lambda: "it is in line\n" + log())
        outer.process.stdin.close()
        assert outer.wait() == 0
    assert thole(box, "wait", "1").returncode == 0
    assert "this runs inside" not in log()
