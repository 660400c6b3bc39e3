"""Who was let go first for the end that he declared keeps that end: nobody who waits is put off by a later one."""
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
def wide(box):
    """GPU 0 is held for a minute; who wants all is promised a start by then; another has gone first for 20 s."""
    thole(box, "claim", "--on", "0", "--time", "1m")
    with subprocess.Popen([THOLE, "run", "-q", "-g", "2", "--", "true"], env=box, start_new_session=True) as waiter:
        eventually(lambda: len(waiting(box)) == 1, "the wide one waits")
        passer = thole(box, "claim", "--on", "1", "--time", "20s").stdout.strip()
        yield passer, waiter
        waiter.kill()
    thole(box, "release", passer, check=False)
    thole(box, "release", "0", check=False)


def test_what_would_put_somebody_off_is_refused(box, wide):
    passer, waiter = wide
    promised = waiting(box)[0]["starts_by"]
    refused = thole(box, "extend", passer, "2h", check=False)
    assert refused.returncode == 69 and "was promised a start by" in refused.stderr, refused.stderr
    assert "thole extend " in refused.stderr and "\\x" not in refused.stderr, refused.stderr
    assert waiting(box)[0]["starts_by"] == promised
    thole(box, "extend", passer, "30s")
    assert waiting(box)[0]["starts_by"] == promised
    waiter.kill()
    eventually(lambda: not waiting(box), "the wide one has gone")
    thole(box, "extend", passer, "2h")


def test_who_held_before_may_be_given_longer(box, wide):
    passer, _ = wide
    thole(box, "extend", "0", "2h")
    assert waiting(box)[0]["starts_by"] > waiting(box)[0]["since"]
    refused = thole(box, "extend", passer, "3h", check=False)
    assert refused.returncode == 69, "the promise as it is now"
