"""One look at the file system that fails for want of descriptors or memory, whichever it is, gives nobody what another has,
shows nothing as free or ended that is not, and deletes nothing."""
import contextlib
import errno
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import claim_box
import hostile
from claim_box import thole
from run_tools import BUILD, SANITIZED, THOLE, Started

LOOKS = BUILD / "fake" / "failing_looks.so"
FALSE_WORDS = ("has ended", "was deleted", "were deleted", "never finished", "nobody keeps", "emptied", "not a file of",
               "not a lock of", "belongs to")
TRIES = ["run", "--no-wait", "--trust-claims", "--on", "0", "--", "echo", "ran"]

pytestmark = [
    pytest.mark.skipif(not LOOKS.exists(), reason="no failing_looks in this build"),
    pytest.mark.skipif(SANITIZED, reason="the sanitizer's library has to come first"),
]


@pytest.fixture
def box(tmp_path):
    with claim_box.made(tmp_path, "2xA100") as environment:
        yield environment


def with_each_look_failing(box, tmp_path, why, *words, never=FALSE_WORDS, most=10_000, **more):
    """The program's end for every look that it makes, which fails alone."""
    counted = tmp_path / "looks"
    preload = {"LD_PRELOAD": str(LOOKS), "THOLE_LOOKS": str(counted), "THOLE_FAILING_ERRNO": str(why), **more}
    thole(box, *words, THOLE_FAILING_LOOK="0", **preload)
    number = int(counted.read_text())
    assert number > 20
    for look in range(1, min(number, most) + 1):
        done = thole(box, *words, THOLE_FAILING_LOOK=str(look), **preload)
        for word in never:
            assert word not in " ".join(done.stderr.split()), (look, done.stderr)
        yield look, done


WHYS = pytest.mark.parametrize("why", [errno.ENFILE, errno.EIO], ids=["ENFILE", "EIO"])


@WHYS
def test_no_failing_look_makes_a_second_owner(box, tmp_path, why):
    claim = thole(box, "-q", "claim", "--on", "0").stdout.strip()
    for look, done in with_each_look_failing(box, tmp_path, why, *TRIES):
        assert done.returncode != 0 and "ran" not in done.stdout, (look, done.stderr)
    assert thole(box, "release", claim).returncode == 0


def test_no_failing_look_makes_a_second_owner_where_the_directory_was_deleted(box, tmp_path):
    """It is looked for in rounds for half a second: one round will do."""
    thole(box, "-q", "claim", "--on", "0")
    subprocess.run(["rm", "-r", box["THOLE_STATE_DIR"]], check=True)
    for look, done in with_each_look_failing(box, tmp_path, errno.ENFILE, *TRIES, never=(), most=24):
        assert done.returncode != 0 and "ran" not in done.stdout, (look, done.stderr)


@WHYS
def test_no_failing_look_gives_a_gpu_twice_within_a_claim_or_deletes_its_directory(box, tmp_path, why):
    with Started([THOLE, "run", "-q", "-g", "2", "--", "sh", "-c", "echo $THOLE_CLAIM; exec cat"], env=box) as outer:
        claim = outer.line().strip()
        inside = {"THOLE_CLAIM": claim}
        inner = Started([THOLE, "run", "-q", "--on", "0", "--", "sh", "-c", "echo up; exec cat"], env={**box, **inside})
        with inner:
            assert inner.line() == "up"
            own = pathlib.Path(box["THOLE_PERSONAL_DIR"]) / claim
            before = sorted(os.listdir(own))
            for look, done in with_each_look_failing(box, tmp_path, why, *TRIES, **inside):
                assert done.returncode != 0 and "ran" not in done.stdout, (look, done.stderr)
                assert set(os.listdir(own)) >= set(before), look
            assert thole(box, *TRIES, **inside).returncode == 75


@pytest.mark.parametrize("kind", [{}, {"THOLE_FAILING_FILES": "1"}], ids=["looks", "files"])
@pytest.mark.parametrize("why", [errno.ENOMEM, errno.EIO], ids=["ENOMEM", "EIO"])
@pytest.mark.parametrize("of", ["claim", "run"])
def test_no_failing_look_takes_ones_own_claim_for_anothers(box, tmp_path, why, kind, of):
    """Nobody waits for his own claim: its end would not come."""
    words, never = ["run", "--no-wait", "-g", "1", "--", "echo", "ran"], ["not free", "outside of this user namespace"]
    with contextlib.ExitStack() as stack:
        if of == "claim":
            claim = thole(box, "-q", "claim", "-g", "2").stdout.strip()
        else:
            around = [THOLE, "run", "-q", "-g", "2", "--", "sh", "-c", "echo $THOLE_CLAIM; exec cat"]
            claim = stack.enter_context(Started(around, env=box)).line().strip()
        for look, done in with_each_look_failing(box, tmp_path, why, *words, never=never, THOLE_CLAIM=claim, **kind):
            assert done.returncode in (0, 69) and (done.returncode == 0) == ("ran" in done.stdout), (look, done.stderr)


def test_a_look_that_fails_after_a_release_does_not_hide_it(box, tmp_path):
    counted = tmp_path / "looks"
    preload = {"LD_PRELOAD": str(LOOKS), "THOLE_LOOKS": str(counted), "THOLE_FAILING_ERRNO": str(errno.EIO)}
    looks, look, unseen = 1, 0, 0
    while look <= looks:
        claim = thole(box, "-q", "claim", "-g", "1").stdout.strip()
        done = thole(box, "release", claim, THOLE_FAILING_LOOK=str(look), **preload)
        if look == 0:
            looks = int(counted.read_text())
        if done.returncode != 0 and claim not in thole(box, "status", "--json").stdout:
            assert f"claim {claim} is released; whether" in " ".join(done.stderr.split()), (look, done.stderr)
            unseen += 1
        thole(box, "-q", "release", claim)
        look += 1
    assert looks > 20 and unseen > 0


@WHYS
def test_no_failing_look_shows_a_claimed_gpu_as_free(box, tmp_path, why):
    thole(box, "-q", "claim", "--on", "0")
    for look, done in with_each_look_failing(box, tmp_path, why, "status", "--json"):
        if done.returncode == 0:
            assert json.loads(done.stdout)["units"][0]["state"] in ("claimed", "unknown"), (look, done.stdout)


@WHYS
def test_no_failing_look_lets_what_claims_inside_claim_outside(tmp_path, why):
    with claim_box.made(tmp_path, "2xA100") as box:
        outer = thole(box, "-q", "claim", "--on", "0", "--share", "--memory", "8G").stdout.strip()
        inside = {"THOLE_CLAIM": outer}
        words = ["run", "--no-wait", "--trust-claims", "--on", "1", "--", "echo", "ran"]   # which the claim around has not
        for look, done in with_each_look_failing(box, tmp_path, why, *words, **inside):
            assert done.returncode != 0 and "ran" not in done.stdout, (look, done.stderr)


@pytest.mark.parametrize("why", [errno.EIO])
def test_no_failing_look_takes_the_machines_directory_for_deleted(why):
    with hostile.make("plain", 2) as lab:
        lab.init()
        alice = lab.hold("alice", "--on", "0")
        shutil.copy(LOOKS, lab.folder)
        counted = f"/tmp/looks-{why}"

        def bob(look):
            failing = [f"LD_PRELOAD={lab.folder / LOOKS.name}", f"THOLE_FAILING_LOOK={look}", f"THOLE_FAILING_ERRNO={why}",
                       f"THOLE_LOOKS={counted}"]
            return lab.run("bob", "env", *failing, lab.program, *TRIES)

        assert bob(0).returncode == 75
        number = int(lab.run("bob", "cat", counted, check=True).stdout)
        for look in range(1, number + 1):
            done = bob(look)
            assert done.returncode != 0 and "ran" not in done.stdout, (look, done.stderr)
            assert not [word for word in FALSE_WORDS if word in " ".join(done.stderr.split())], (look, done.stderr)
        hostile.end(alice)
