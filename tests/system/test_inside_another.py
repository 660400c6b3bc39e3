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
