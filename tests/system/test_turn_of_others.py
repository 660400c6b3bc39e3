"""What somebody asks for himself says nothing of the GPUs that those before him wait for."""
import contextlib
import json
import os
import pathlib
import pwd
import subprocess

import pytest

from claim_box import made, thole
from run_tools import THOLE, eventually

MACHINES = pathlib.Path(__file__).parents[2] / "machines"
ME = pwd.getpwuid(os.getuid()).pw_name


def used_by(user, mib=1000, kind="compute", **more):
    """A GPU's use without a claim."""
    process = {"user": user, "command": "train", "kind": kind, "memory_mib": mib}
    return {"processes": [process], "memory_used_mib": mib, "utilization_percent": 5, **more}


def machine(folder, gpus, *, small=None, used=None, by="stranger", used_mib=1000, **more):
    """Of A100s; one may have less memory, one may be used without a claim."""
    words = [THOLE, "--machine", f"{gpus}xA100", "capture"]
    made_of = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    if small is not None:
        made_of["gpus"][small]["memory_mib"] = 24576
    if used is not None:
        made_of["gpus"][used]["use"] |= used_by(by, used_mib, **more)
    path = folder / "machine.json"
    path.write_text(json.dumps(made_of))
    return str(path)


@pytest.fixture
def box_of(tmp_path):
    with contextlib.ExitStack() as boxes:
        yield lambda *words, **more: boxes.enter_context(made(tmp_path, machine(tmp_path, *words, **more)))


def changed(folder, box, change):
    """The same machine, altered at one moment."""
    made_of = json.loads(open(box["THOLE_MACHINE"]).read())
    change(made_of["gpus"])
    becomes(folder, box, json.dumps(made_of))


def becomes(folder, box, text):
    (folder / "new.json").write_text(text)
    os.rename(folder / "new.json", box["THOLE_MACHINE"])


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


def line_up(box, begun, *requests):
    """They wait one behind the other; who begins says which of them he is."""
    waiters = []
    for number, words in enumerate(requests, 1):
        waiters.append(subprocess.Popen([THOLE, "run", "-q", *words, "--", "sh", "-c", f"echo {number} >> {begun}"], env=box,
                                        start_new_session=True))
        eventually(lambda: len(line(box)) == len(waiters), "it waits")
    return waiters


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


@pytest.mark.parametrize("most, status", [("50", 0), ("98", 0), ("99", 75), ("100", 75)])
def test_who_is_kept_waiting_by_a_strangers_load_keeps_nobody_waiting(box_of, most, status):
    """Others judge that load as he does."""
    box = box_of(3, used=1, utilization_percent=99)
    hold(box, "--on", "2", "--time", "30s")
    with waits(box, "-g", "3", "--beside", "any", "--max-load", most):
        assert comes(box, "--on", "0") == status


def test_who_waits_behind_one_who_can_never_start_any_more_sees_that(box_of, tmp_path):
    box = box_of(3)
    hold(box, "--on", "1")
    both = line_up(box, tmp_path / "begun", ["-g", "3"], ["--on", "2"])
    changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(used_by("stranger")))
    assert both[1].wait(60) == 0
    both[0].kill()
    both[0].wait()


def test_nobody_is_passed_by_an_old_look(box_of, tmp_path):
    """By the second's first look the first one could start once GPU 0 is free, and he does not: but for a stranger."""
    box = box_of(4)
    hold(box, "--on", "0", "--time", "4s")
    hold(box, "--on", "1", "--time", "12s")
    begun = tmp_path / "begun"
    both = line_up(box, begun, ["-g", "3"], ["--on", "0"])
    changed(tmp_path, box, lambda gpus: gpus[3]["use"].update(used_by("stranger")))
    assert [one.wait(60) for one in both] == [0, 0]
    assert begun.read_text().split() == ["1", "2"]


@pytest.mark.parametrize("whose", ["of who comes", "of who waits"])
def test_what_one_ignores_says_nothing_of_others(box_of, whose):
    """THOLE_IGNORE_PROCESSES is a matter of one's own look."""
    box = box_of(3, used=2, utilization_percent=5)
    own = {**box, "THOLE_IGNORE_PROCESSES": "train"}
    hold(box, "--on", "0", "--time", "30s")
    count, waiter, comer = ("2", box, own) if whose == "of who comes" else ("3", own, box)
    with waits(waiter, "-g", count, *(["--on", "0,1"] if count == "2" else [])):
        assert bool(line(comer)[0]["starts_by"]) == (count == "2")
        assert comes(comer, "--on", "1", "--time", "3h") == (75 if count == "2" else 0)


def test_a_later_end_beside_use_without_a_claim_is_known_to_put_off(box_of, tmp_path):
    """Sharers, and memory that nobody has claimed comes to it: the budgets alone would leave room."""
    box = box_of(1)
    hold(box, "--share", "--memory", "70G", "--time", "1m")
    with waits(box, "--share", "--memory", "20G"):
        passer = thole(box, "claim", "--share", "--memory", "8G", "--time", "15s").stdout.strip()
        assert passer
        changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(used_by("display", 56320, "graphics")))
        assert thole(box, "extend", passer, "2h").returncode == 69


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
    both = line_up(box, begun, ["-g", "3"], ["--on", "1"])
    machine(tmp_path, 3)
    assert thole(box, "release", held).returncode == 0
    assert [one.wait(60) for one in both] == [0, 0]
    assert begun.read_text().split() == ["1", "2"]


def test_what_is_seen_on_a_claimed_gpu_is_its_owners_for_who_shares_too(box_of, tmp_path):
    """Shown as another user's, as from a container."""
    box = box_of(2)
    hold(box, "--on", "0", "--time", "30s")
    with waits(box, "-g", "2", "--share", "--memory", "30G"):
        promised = line(box)[0]["starts_by"]
        changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(used_by("somebody", 61440)))
        assert promised and line(box)[0]["starts_by"] == promised
        assert comes(box, "--on", "1") == 75


def test_a_load_is_judged_to_the_tenth_of_a_percent(box_of):
    box = box_of(3, used=0, utilization_percent=10.3)
    hold(box, "--on", "1", "--time", "30s")
    with waits(box, "-g", "3", "--beside", "any", "--max-load", "10.5%"):
        assert line(box)[0]["starts_by"]
        assert comes(box, "--on", "2") == 75


def test_who_can_never_share_a_gpu_keeps_nobody_from_it(box_of, tmp_path):
    box = box_of(3)
    changed(tmp_path, box, lambda gpus: gpus[0].update(compute_mode="exclusive-process"))
    hold(box, "--on", "1")
    with waits(box, "-g", "2", "--share", "--memory", "1G"):
        assert comes(box, "--on", "0") == 0


def test_beside_others_is_no_use_where_one_process_is_admitted(box_of, tmp_path):
    box = box_of(1, used=0, utilization_percent=5)
    changed(tmp_path, box, lambda gpus: gpus[0].update(compute_mode="exclusive-process"))
    done = thole(box, "claim", "--no-wait", "--beside", "any")
    assert done.returncode == 75 and "its compute mode admits one process only" in done.stderr, done.stderr


@pytest.mark.parametrize("health", ["lost", "reset-required"])
def test_who_waits_keeps_his_place_while_a_gpu_is_sick(box_of, tmp_path, health):
    box = box_of(2)
    held = thole(box, "claim", "--on", "0").stdout.strip()
    with waits(box, "-g", "2") as first:
        changed(tmp_path, box, lambda gpus: gpus[1].update(health=health))
        second = subprocess.Popen([THOLE, "run", "-q", "--on", "0", "--", "true"], env=box, start_new_session=True)
        eventually(lambda: len(line(box)) == 2, "both wait")
        assert thole(box, "release", held).returncode == 0
        assert second.wait(60) == 0 and first.poll() is None, "the first is passed, and waits"
        changed(tmp_path, box, lambda gpus: gpus[1].update(health="ok"))
        assert first.wait(60) == 0


def test_a_newcomer_passes_nobody_by_what_may_be_ending(box_of, tmp_path):
    """What a claim ran is still seen for a moment after its end."""
    box = box_of(3)
    hold(box, "--on", "2", "--time", "1m")
    held = thole(box, "claim", "--on", "0", "--time", "30s").stdout.strip()
    with waits(box, "-g", "3"):
        changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(used_by("somebody")))
        assert thole(box, "release", held).returncode == 0
        comer = subprocess.Popen([THOLE, "claim", "--no-wait", "--on", "1"], env=box, stdout=subprocess.DEVNULL)
        changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(processes=[], memory_used_mib=0))
        assert comer.wait(60) == 75
        changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(used_by("somebody")))
        assert comes(box, "--on", "1") == 0, "but what stays is no claim's"


@pytest.mark.parametrize("seen", ["as a process", "as memory"])
def test_it_is_seen_for_two_seconds_before_anybody_is_passed_by_it(box_of, tmp_path, seen):
    box = box_of(3)
    hold(box, "--on", "2", "--time", "1m")
    held = thole(box, "claim", "--on", "0", "--time", "30s").stdout.strip()
    idle = tmp_path / "idle.json"
    idle.write_text(open(box["THOLE_MACHINE"]).read())
    with waits(box, "-g", "3"):
        with subprocess.Popen(["sh", "-c", 'sleep 1.3; mv "$0" "$1"', idle, box["THOLE_MACHINE"]]) as last:
            use = used_by("somebody")
            use["processes"] = [use["processes"][0] | {"pid": last.pid}] if seen == "as a process" else []
            changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(use))
            assert thole(box, "release", held).returncode == 0
            assert comes(box, "--on", "1") == 75


def test_an_index_means_the_same_gpu_when_one_before_it_has_left_the_list(box_of, tmp_path):
    box = box_of(3)
    held = thole(box, "claim", "--on", "1").stdout.strip()
    whole = json.loads(open(box["THOLE_MACHINE"]).read())
    shown = tmp_path / "shown"
    words = [THOLE, "run", "-v", "--on", "1", "--", "sh", "-c", f'echo "$THOLE_GPUS" > {shown}']
    with subprocess.Popen(words, env=box, start_new_session=True, stderr=subprocess.PIPE, text=True) as waiter:
        eventually(lambda: len(line(box)) == 1, "it waits")
        changed(tmp_path, box, lambda gpus: gpus.pop(0))
        assert thole(box, "release", held).returncode == 0
        assert waiter.wait(60) == 0, waiter.stderr.read()
    assert json.loads(shown.read_text())[0]["uuid"] == whole["gpus"][1]["uuid"]


def test_who_waits_for_what_has_left_the_list_is_told_and_has_it_when_it_is_back(box_of, tmp_path):
    box = box_of(2)
    held = thole(box, "claim", "--on", "1").stdout.strip()
    whole = open(box["THOLE_MACHINE"]).read()
    with waits(box, "--on", "1") as waiter:
        changed(tmp_path, box, lambda gpus: gpus.pop())
        assert thole(box, "release", held).returncode == 0
        told = ""
        while "waiting for that to change" not in told:
            assert (one := waiter.stderr.readline()), told
            told += one
        assert waiter.poll() is None and comes(box, "--on", "0") == 0
        becomes(tmp_path, box, whole)
        assert waiter.wait(60) == 0


# With hidepid=2 others see that a process is there, and not whose it is.
def as_others_see_it(folder, box):
    made_of = json.loads(open(box["THOLE_MACHINE"]).read())
    for gpu in made_of["gpus"]:
        for process in gpu["use"]["processes"]:
            process.update(user="", command="")
    (folder / "others.json").write_text(json.dumps(made_of))
    return box | {"THOLE_MACHINE": str(folder / "others.json")}


@pytest.mark.parametrize("words", [["--beside", "mine"], ["--share", "--memory", "10G"]], ids=" ".join)
def test_use_that_may_be_his_own_passes_nobody(box_of, tmp_path, words):
    box = box_of(3, used=0, by=ME)
    others = as_others_see_it(tmp_path, box)
    hold(others, "--on", "1", "--time", "1m")
    with waits(box, "-g", "3", *words):
        assert comes(others, "--on", "2") == 75
        [seen] = line(others)
        assert seen["starts_by"] is not None, "as he was promised"


def test_what_sharers_use_is_counted_once_where_nobody_sees_whose_it_is(box_of, tmp_path):
    box = box_of(1, used=0, by=ME, used_mib=28000)
    hold(box, "--share", "--memory", "30G")
    assert comes(as_others_see_it(tmp_path, box), "--share", "--memory", "30G") == 0


def test_nobody_waits_beside_what_is_not_seen_where_one_process_is_admitted(box_of, tmp_path):
    box = box_of(2)
    changed(tmp_path, box, lambda gpus: gpus[0].update(compute_mode="exclusive-process"))
    changed(tmp_path, box, lambda gpus: gpus[0]["use"].update(memory_used_mib=1000))
    done = thole(box, "claim", "--no-wait", "--on", "0", "--beside", "any")
    assert done.returncode == 75 and "its compute mode admits one process only" in done.stderr, done.stderr
