"""Who was let go first for the end that he declared keeps that end: nobody who waits is put off by a later one."""
import contextlib
import json
import os
import subprocess
import threading
import time

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


def test_two_that_went_first_do_not_put_off_together_what_either_alone_would_not(wide_box):
    """One GPU is to spare: the second takes it, since the first is to end; now the first is not to spare any more."""
    box = wide_box
    thole(box, "claim", "-g", "2", "--time", "30s")
    with waits(box, "-g", "3"):
        first = thole(box, "claim", "--time", "5s").stdout.strip()
        second = thole(box, "claim", "--time", "70s").stdout.strip()
        promised = waiting(box)[0]["starts_by"]
        refused(box, first, "60s")
        assert waiting(box)[0]["starts_by"] == promised
        thole(box, "extend", first, "10s")
        thole(box, "release", second)
        thole(box, "extend", first, "60s")


def test_a_ticket_that_is_wiped_for_a_moment_lets_nobody_off(box):
    thole(box, "claim", "--on", "0", "--time", "1m")
    queue = os.path.join(box["THOLE_STATE_DIR"], "queue")
    with waits(box, "-g", "2"):
        claim = thole(box, "claim", "--on", "1", "--time", "20s").stdout.strip()
        whole = open(queue, "rb").read()
        over = threading.Event()

        def wipe():
            with open(queue, "r+b", buffering=0) as file:
                while not over.is_set():
                    os.pwrite(file.fileno(), bytes(len(whole) - 64), 64)

        wiper = threading.Thread(target=wipe)
        wiper.start()
        try:
            for _ in range(5):
                refused(box, claim, "2h")
        finally:
            over.set()
            wiper.join()


def started_with_two_bays(box, tmp_path, limit):
    """A map with two bays on GPU 1, whose items come when the test writes them."""
    items = subprocess.Popen([THOLE, "map", "--on", "1", "--per-gpu", "2", "--time", limit, "--", "sh", "-c",
                              f"echo {{}} >> {tmp_path}/begun; sleep 3; echo {{}} >> {tmp_path}/ended"],
                             env=box, stdin=subprocess.PIPE, start_new_session=True)
    items.stdin.write(b"one\n")
    items.stdin.flush()
    eventually(lambda: (tmp_path / "begun").exists(), "the first task begins")
    return items


def test_nor_does_an_idle_place_of_a_map_begin_a_task_that_would_end_later(box, tmp_path):
    thole(box, "claim", "--on", "0", "--time", "8s")
    with subprocess.Popen([THOLE, "run", "-q", "-g", "2", "--", "sh", "-c", f"echo wide >> {tmp_path}/begun"], env=box) as wide:
        eventually(lambda: len(waiting(box)) == 1, "it waits")
        items = started_with_two_bays(box, tmp_path, "5s")
        eventually(lambda: (tmp_path / "ended").exists(), "the first task has ended")
        items.stdin.write(b"two\n")
        items.stdin.close()
        assert wide.wait(60) == 0 and items.wait(60) == 0
    assert (tmp_path / "begun").read_text().split() == ["one", "wide", "two"]


def test_the_end_of_a_map_s_lane_is_that_of_its_last_task(box, tmp_path):
    items = started_with_two_bays(box, tmp_path, "20s")
    claims = lambda: json.loads(thole(box, "status", "--json").stdout)["claims"]
    thole(box, "extend", claims()[0]["id"], "10m")
    extended = claims()[0]["until"]
    items.stdin.write(b"two\n")
    items.stdin.flush()
    eventually(lambda: (tmp_path / "begun").read_text().split() == ["one", "two"], "the second task begins beside the first")
    assert claims()[0]["until"][:16] == extended[:16]
    items.stdin.close()
    assert items.wait(60) == 0


def test_a_long_patience_is_part_of_what_is_declared(box):
    """Else it would go first, hear nothing, and be there long after who let it go was promised his start."""
    thole(box, "claim", "--on", "0", "--time", "1m")
    with waits(box, "-g", "2"):
        job = thole(box, "submit", "-q", "--time", "5s", "--patience", "10m", "--", "true").stdout.strip()
        eventually(lambda: len(waiting(box)) == 2, "it does not go first")
        thole(box, "cancel", job)
        short = thole(box, "submit", "-q", "--time", "5s", "--", "true").stdout.strip()
        thole(box, "wait", short)


@pytest.fixture
def widest_box(tmp_path):
    with made(tmp_path, "6xA100") as environment:
        yield environment


@pytest.mark.parametrize("before", [True, False], ids=["before", "meanwhile"])
def test_nobody_passes_while_the_one_is_being_ended_whose_end_was_counted_on(widest_box, tmp_path, before):
    """Two are free, two are being ended, two are held for an hour; who wants four is next, though one wants two for less."""
    box = widest_box
    ends = "trap 'touch asked; until [ -e go ]; do sleep 0.01; done; exit 0' INT; while :; do sleep 0.05; done"
    held = ["run", "-q", "-g", "2", "--time"]
    with contextlib.ExitStack() as stack:
        def starts(*words):
            process = stack.enter_context(subprocess.Popen([THOLE, *words], env=box, cwd=tmp_path, start_new_session=True))
            stack.callback(process.terminate)   # what it runs ends with it
            return process

        def is_taken(number):
            units = json.loads(thole(box, "status", "--json").stdout)["units"]
            return [unit["state"] for unit in units].count("claimed") == number

        starts(*held, "2s", "--", "bash", "-c", ends)
        eventually(lambda: is_taken(2), "the first holds two")
        starts(*held, "1h", "--", "sleep", "600")
        eventually(lambda: is_taken(4), "the second holds two")
        wide = starts("run", "-q", "-g", "4", "--", "touch", "wide")
        eventually(lambda: len(waiting(box)) == 1, "four are waited for")
        if not before:
            eventually((tmp_path / "asked").exists, "the first is asked to end")
        passer = starts(*held, "50m", "--", "touch", "passed")
        eventually((tmp_path / "asked").exists, "the first is asked to end")
        eventually(lambda: len(waiting(box)) == 2, "both wait")
        promised = waiting(box)[0]["starts_by"]
        time.sleep(2.5)   # what is tested: nothing happens meanwhile, also at a waiter's own looks
        assert not (tmp_path / "passed").exists() and promised
        (tmp_path / "go").touch()
        assert wide.wait(20) == 0 and passer.wait(20) == 0
