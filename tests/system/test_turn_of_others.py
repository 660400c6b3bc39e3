"""What somebody asks for himself says nothing of the GPUs that those before him wait for."""
import contextlib
import json
import os
import pwd
import subprocess
import time

import pytest

from claim_box import made, thole
from run_tools import THOLE, eventually

ME = pwd.getpwuid(os.getuid()).pw_name


def machine(folder, gpus, *, small=None, used=None, by="stranger", used_mib=1000, **more):
    """Of A100s; one may have less memory, one may be used without a claim."""
    words = [THOLE, "--machine", f"{gpus}xA100", "capture"]
    made_of = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    if small is not None:
        made_of["gpus"][small]["memory_mib"] = 24576
    if used is not None:
        process = {"user": by, "command": "train", "kind": "compute", "memory_mib": used_mib}
        made_of["gpus"][used]["use"] |= {"processes": [process], "memory_used_mib": used_mib, **more}
    path = folder / "machine.json"
    path.write_text(json.dumps(made_of))
    return str(path)


@pytest.fixture
def box_of(tmp_path):
    with contextlib.ExitStack() as boxes:
        yield lambda *words, **more: boxes.enter_context(made(tmp_path, machine(tmp_path, *words, **more)))


def line(box):
    return json.loads(thole(box, "status", "--json").stdout)["queue"]


def hold(box, *words):
    done = thole(box, "claim", *words)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def waits(box, *words):
    with subprocess.Popen([THOLE, "run", "-v", *words, "--", "true"], env=box, start_new_session=True,
                          stderr=subprocess.PIPE, text=True) as waiter:
        eventually(lambda: len(line(box)) == 1, "it waits")
        yield waiter
        waiter.kill()


def comes(box, *words):
    """Who comes then and does not wait: its exit status."""
    return thole(box, "claim", "--no-wait", *words).returncode


@pytest.mark.parametrize("words", [["--memory", "40G"], ["--memory", "30G", "--time", "3h"]], ids=" ".join)
def test_who_needs_more_memory_than_anothers_gpu_has_passes_nobody(box_of, words):
    box = box_of(3, small=2)
    hold(box, "--on", "0", "--time", "30s")
    with waits(box, "-g", "3"):
        assert comes(box, "--on", "1", *words) == 75
        assert comes(box, "--on", "1", "--memory", words[1], "--time", "5s") == 0, "but whoever ends before"


@pytest.mark.parametrize("words", [["--trust-claims"], ["--beside", "any"], ["--beside", "any", "--share", "--memory", "1G"]],
                         ids=" ".join)
def test_who_does_not_mind_a_stranger_passes_nobody_who_does(box_of, words):
    """He is told by when he starts on the others."""
    box = box_of(4, used=3, utilization_percent=5)
    hold(box, "-g", "2", "--on", "0,1", "--time", "30s")
    with waits(box, "-g", "3"):
        assert comes(box, "--on", "2", *words, "--time", "3h") == 75
        assert comes(box, "--on", "2", *words) == 75


@pytest.mark.parametrize("words, by", [(["--beside", "any"], "stranger"), (["--beside", "mine"], ME),
                                       (["--trust-claims"], "stranger")], ids=["any", "mine", "trusting"])
def test_who_waits_for_others_beside_a_stranger_is_passed_by_nobody(box_of, words, by):
    box = box_of(3, used=2, by=by, utilization_percent=5)
    hold(box, "--on", "0", "--time", "30s")
    with waits(box, "-g", "3", *words):
        assert line(box)[0]["starts_by"]
        assert comes(box, "--on", "1") == 75
        assert comes(box, "--on", "1", "--time", "3h") == 75


def test_what_is_anothers_keeps_nobody_waiting(box_of):
    box = box_of(3, used=2, by="stranger", utilization_percent=5)
    hold(box, "--on", "0", "--time", "30s")
    with waits(box, "-g", "3", "--beside", "mine"):
        assert not line(box)[0]["starts_by"]
        assert comes(box, "--on", "1") == 0


def test_who_is_kept_waiting_by_a_strangers_load_keeps_nobody_waiting_for_long(box_of):
    """Only he judges that load: for others he could start, and does not."""
    box = box_of(2, used=1, utilization_percent=99)
    with waits(box, "-g", "2", "--beside", "any"):
        assert comes(box, "--on", "0") == 75
        begun = time.monotonic()
        hold(box, "--on", "0", "--wait", "30s")
        assert time.monotonic() - begun > 1


def test_who_needs_memory_that_is_in_use_keeps_nobody_waiting(box_of):
    box = box_of(3, used=2, by=ME, utilization_percent=5, used_mib=60000, memory_utilization_percent=0)
    hold(box, "--on", "0", "--time", "30s")
    with waits(box, "-g", "3", "--beside", "mine", "--max-memory", "100", "--memory", "30G"):
        assert comes(box, "--on", "1") == 0


def test_it_is_seen_again_before_anybody_is_passed_by_it(box_of, tmp_path):
    """Of two that wait, the second has seen a stranger who keeps the first; he has gone since."""
    box = box_of(3, used=2, utilization_percent=5)
    hold(box, "--on", "0", "--time", "4s")
    held = thole(box, "claim", "--on", "1").stdout.strip()
    begun = tmp_path / "begun"
    both = []
    for who, words in (("first", ["-g", "3"]), ("second", ["--on", "1"])):
        both.append(subprocess.Popen([THOLE, "run", "-q", *words, "--", "sh", "-c", f"echo {who} >> {begun}"], env=box,
                                     start_new_session=True))
        eventually(lambda: len(line(box)) == len(both), "it waits")
    machine(tmp_path, 3)
    assert thole(box, "release", held).returncode == 0
    assert [one.wait(60) for one in both] == [0, 0]
    assert begun.read_text().split() == ["first", "second"]
