"""Who was let go first for the end that he declared keeps that end: nobody who waits is put off by a later one."""
import contextlib
import json
import subprocess

import pytest

from claim_box import made
from run_tools import THOLE, eventually


def thole(box, *words, check=True):
    done = subprocess.run([THOLE, *words], env=box, capture_output=True, text=True, timeout=60, check=False)
    assert not check or done.returncode == 0, (words, done.stderr)
    return done


def waiting(box):
    return json.loads(thole(box, "status", "--json").stdout)["queue"]


@pytest.fixture
def box(tmp_path):
    with made(tmp_path, "2xA100") as environment:
        yield environment


@pytest.fixture
def wide_box(tmp_path):
    with made(tmp_path, "4xA100") as environment:
        yield environment


@contextlib.contextmanager
def waits(box, *words):
    """In line until the block ends."""
    before = len(waiting(box))
    with subprocess.Popen([THOLE, "run", "-q", *words, "--", "true"], env=box, start_new_session=True) as waiter:
        eventually(lambda: len(waiting(box)) == before + 1, "it waits")
        yield waiter
        waiter.kill()


@pytest.fixture(params=["alone", "sharing"])
def passer(box, request):
    """GPU 0 is held for a minute; who wants both is promised a start by then; this claim has gone first for 20 s."""
    thole(box, "claim", "--on", "0", "--time", "1m")
    words = ["--share", "--memory", "1G"] if request.param == "sharing" else []
    with waits(box, "-g", "2"):
        yield thole(box, "claim", "--on", "1", "--time", "20s", *words).stdout.strip()


def refused(box, claim, time):
    done = thole(box, "extend", claim, time, check=False)
    assert done.returncode == 69 and "let this claim go first" in done.stderr and "\\x" not in done.stderr, done.stderr
    return done.stderr


def test_what_would_put_somebody_off_is_refused(box, passer):
    promised = waiting(box)[0]["starts_by"]
    assert "thole extend " in refused(box, passer, "2h")
    thole(box, "extend", passer, "30s")
    refused(box, passer, "2h")
    assert waiting(box)[0]["starts_by"] == promised


def test_nor_by_what_others_let_happen_since(box, passer):
    """Who had begun before may be given longer; what went first keeps what it was let go first for."""
    thole(box, "extend", "0", "2h")
    refused(box, passer, "90m")


def test_once_nobody_of_them_waits_it_may_end_when_it_likes(box):
    thole(box, "claim", "--on", "0", "--time", "1m")
    with waits(box, "-g", "2"):
        claim = thole(box, "claim", "--on", "1", "--time", "20s").stdout.strip()
        refused(box, claim, "2h")
    eventually(lambda: not waiting(box), "nobody waits")
    thole(box, "extend", claim, "2h")


def test_who_could_be_promised_nothing_is_not_put_off_either(wide_box):
    box = wide_box
    thole(box, "claim", "--on", "0", "--time", "1m")
    thole(box, "claim", "--on", "3")
    with waits(box, "--on", "0"), waits(box, "-g", "4"):
        claim = thole(box, "claim", "--on", "2", "--time", "20s").stdout.strip()
        refused(box, claim, "2h")


def test_a_job_whose_time_was_edited_in_line_does_not_go_first_with_it(box):
    thole(box, "claim", "--on", "0", "--time", "40s")
    held = thole(box, "claim", "--on", "1", "--time", "30s").stdout.strip()
    with waits(box, "-g", "2"):
        job = thole(box, "submit", "-q", "--on", "1", "--time", "5s", "--", "sleep", "600").stdout.strip()
        eventually(lambda: len(waiting(box)) == 2, "its lane stands in line")
        thole(box, "edit", job, "--time", "10h")
        thole(box, "release", held)
        eventually(lambda: [one for one in waiting(box) if one["time_s"] == 36000], lambda: f"in line anew: {waiting(box)}")
        [claim] = json.loads(thole(box, "status", "--json").stdout)["claims"]
        assert claim["unit"] == "0"
    thole(box, "cancel", job)


def test_nor_does_a_map_begin_a_task_that_would_end_later(box, tmp_path):
    """It has gone first for one task; the next begins only when who let it go has had his turn."""
    thole(box, "claim", "--on", "0", "--time", "3s")
    begun = tmp_path / "begun"
    wide = subprocess.Popen([THOLE, "run", "-q", "-g", "2", "--", "sh", "-c", f"echo wide >> {begun}"], env=box,
                            start_new_session=True)
    eventually(lambda: len(waiting(box)) == 1, "it waits")
    thole(box, "map", "--on", "1", "--time", "2s", "--", "sh", "-c", f"echo {{}} >> {begun}; sleep 1.2", ":::", "a", "b", "c")
    assert wide.wait(60) == 0
    assert begun.read_text().split() == ["a", "wide", "b", "c"]
