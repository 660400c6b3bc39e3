"""GPUs that leave the driver's list, come back, fail or are partitioned while somebody waits for them or runs tasks on them."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from claim_box import made, thole
from fake_nvidia import Driver
from run_tools import THOLE, Started, eventually
from test_turn_of_others import (  # noqa: F401 (box_of: a fixture)
    MACHINES, becomes, box_of, changed, comes, hold, line, line_up, waits)

# A GPU that leaves the driver's list gives its number to the next one.
WAITS = "{ echo > began; until [ -e left ]; do sleep 0.02; done; }"
FIRST_SAYS_SO = f'echo "$CUDA_VISIBLE_DEVICES" >> shown; [ -e left ] || {WAITS}'


@pytest.mark.parametrize("how", ["map", "submit"])
def test_a_later_task_is_shown_the_claimed_gpu_by_the_number_it_has_then(box_of, tmp_path, how):
    box = box_of(4) | {"THOLE_QUEUE_DIR": str(tmp_path / "queue"), "THOLE_BIND": "none"}
    words = [how, "-q", "--on", "1", *(["-j", "1"] if how == "map" else ["--array", "0-1", "--"]), "sh", "-c", FIRST_SAYS_SO]
    words += [":::", "a", "b"] if how == "map" else []
    with subprocess.Popen([THOLE, *words], env=box, cwd=tmp_path, start_new_session=True) as started:
        eventually((tmp_path / "began").exists, "the first runs")
        changed(tmp_path, box, lambda gpus: gpus.pop(0))
        (tmp_path / "left").touch()
        assert started.wait(60) == 0
    if how == "submit":
        assert subprocess.run([THOLE, "wait", "1"], env=box, timeout=60).returncode == 0
    assert (tmp_path / "shown").read_text().split() == ["1", "0"]


@pytest.mark.parametrize("how, by", [("map", "name"), ("map", "mask"), ("submit", "name")])
@pytest.mark.parametrize("what", ["gone", "broken"])
def test_no_task_fails_for_a_gpu_that_is_away_for_a_moment(box_of, tmp_path, how, by, what):
    """Its lane gives it back and lines up again; what cannot be read says nothing."""
    box = box_of(3) | {"THOLE_QUEUE_DIR": str(tmp_path / "queue"), "THOLE_BIND": "none"}
    if by == "mask":
        box["CUDA_VISIBLE_DEVICES"] = "1"
    whole = open(box["THOLE_MACHINE"]).read()
    task = ["sh", "-c", f'echo "$THOLE_GPUS" >> shown; [ -e left ] || {WAITS}']
    words = [how, "-q", *(["--on", "1"] if by == "name" else [])]
    words += ["-j", "1", *task, ":::", "a", "b", "c"] if how == "map" else ["--array", "0-2", "--", *task]
    with subprocess.Popen([THOLE, *words], env=box, cwd=tmp_path, start_new_session=True) as started:
        eventually((tmp_path / "began").exists, "the first runs")
        if what == "gone":
            changed(tmp_path, box, lambda gpus: gpus.pop(1))
        else:
            pathlib.Path(box["THOLE_MACHINE"]).write_text("{")
        (tmp_path / "left").touch()
        if what == "gone":
            eventually(lambda: not json.loads(thole(box, "status", "--json").stdout)["claims"], "it is given back")
        becomes(tmp_path, box, whole)
        assert started.wait(60) == 0
    if how == "submit":
        assert subprocess.run([THOLE, "wait", "1"], env=box, timeout=60).returncode == 0
    uuids = [json.loads(one)[0]["uuid"] for one in (tmp_path / "shown").read_text().splitlines()]
    assert uuids == [json.loads(whole)["gpus"][1]["uuid"]] * 3


@pytest.mark.parametrize("more", [[], ["--no-supervisor"], ["-g", "2"]], ids=" ".join)
@pytest.mark.parametrize("what", ["gone", "partitioned"])
def test_no_command_runs_in_a_claim_of_which_a_gpu_is_away(box_of, tmp_path, more, what):
    box = box_of(3)
    whole = open(box["THOLE_MACHINE"]).read()
    claim = thole(box, "claim", "-q", "--on", "0,1", "-g", "2").stdout.strip()
    shows = ["run", *more, "--in", claim, "--", "printenv", "CUDA_VISIBLE_DEVICES"]
    if what == "gone":
        changed(tmp_path, box, lambda gpus: gpus.pop(1))
    else:
        changed(tmp_path, box, lambda gpus: gpus[1].update(mig_mode=True))
    done = thole(box, *shows)
    assert done.returncode == 69 and done.stdout == "", done.stderr
    why = "the driver no longer lists it" if what == "gone" else "it has been partitioned since it was claimed"
    assert f"{why}: GPU {json.loads(whole)['gpus'][1]['uuid']}\n  thole doctor\n" in done.stderr
    others = thole(box, "run", "--in", claim, "-g", "1", "--", "printenv", "CUDA_VISIBLE_DEVICES")
    assert others.stdout.strip() in ("0", json.loads(whole)["gpus"][0]["uuid"]), others.stderr
    becomes(tmp_path, box, whole)
    assert thole(box, *shows).stdout == "0,1\n"


def runs(box, folder, words):
    pipe = subprocess.PIPE
    return subprocess.Popen([THOLE, *words], env=box, cwd=folder, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("came", [False, True], ids=["one leaves", "one comes back"])
@pytest.mark.parametrize("on", ["2", "1,2"])
def test_what_runs_inside_a_claim_claims_of_its_gpus_whatever_their_numbers_are_now(box_of, tmp_path, on, came):
    box = box_of(3) | {"THOLE_QUEUE_DIR": str(tmp_path / "queue"), "THOLE_BIND": "none"}
    whole = open(box["THOLE_MACHINE"]).read()
    keys = [gpu["uuid"] for gpu in json.loads(whole)["gpus"]]
    if came:
        changed(tmp_path, box, lambda gpus: gpus.pop(0))
    numbers = [int(number) - came for number in on.split(",")]
    inside = f"{WAITS}; {THOLE} run -q -g 1 -- printenv THOLE_GPUS && {THOLE} submit -q -g 1 -- true"
    words = ["run", "-q", "--on", ",".join(map(str, numbers)), "-g", str(len(numbers)), "--", "sh", "-c", inside]
    with runs(box, tmp_path, words) as run:
        eventually((tmp_path / "began").exists, "it runs")
        if came:
            becomes(tmp_path, box, whole)
        else:
            changed(tmp_path, box, lambda gpus: gpus.pop(0))
        (tmp_path / "left").touch()
        out, err = run.communicate(timeout=60)
    assert run.returncode == 0 and err == "", err
    assert json.loads(out.splitlines()[0])[0]["uuid"] in [keys[number + came] for number in numbers]


def test_what_asks_inside_a_claim_for_a_gpu_that_is_away_is_told_so(box_of, tmp_path):
    box = box_of(3)
    keys = [gpu["uuid"] for gpu in json.loads(open(box["THOLE_MACHINE"]).read())["gpus"]]
    inner = f"{THOLE} run -g 2 printenv CUDA_VISIBLE_DEVICES"
    whole = ["run", "-q", "--on", "0,1", "-g", "2", "--", "sh", "-c", f"{WAITS}; {inner}"]
    with runs(box, tmp_path, whole) as run:
        eventually((tmp_path / "began").exists, "it runs")
        changed(tmp_path, box, lambda gpus: gpus.pop(1))
        (tmp_path / "left").touch()
        out, err = run.communicate(timeout=60)
    assert (run.returncode, out) == (69, "") and f"the driver no longer lists it: GPU {keys[1]}" in err


@pytest.mark.parametrize("option", ["--on", "--order"])
def test_a_job_means_the_gpu_that_its_index_meant_when_it_was_submitted(box_of, tmp_path, option):
    box = box_of(3) | {"THOLE_QUEUE_DIR": str(tmp_path / "queue"), "THOLE_BIND": "none"}
    held = thole(box, "claim", "--on", "0,1,2", "-g", "3").stdout.strip()
    whole = json.loads(open(box["THOLE_MACHINE"]).read())
    words = ["submit", "-q", option, "1", "--", "sh", "-c", 'echo "$THOLE_GPUS" > shown']
    subprocess.run([THOLE, *words], env=box, cwd=tmp_path, check=True)
    assert thole(box, "hold", "1").returncode == 0     # GPUs are given back one after the other
    changed(tmp_path, box, lambda gpus: gpus.pop(0))
    assert thole(box, "release", held).returncode == 0
    assert thole(box, "resume", "1").returncode == 0
    assert subprocess.run([THOLE, "wait", "1"], env=box, timeout=60).returncode == 0
    assert json.loads((tmp_path / "shown").read_text())[0]["uuid"] == whole["gpus"][1]["uuid"]


def test_who_comes_when_a_gpu_is_back_waits_for_who_waited_for_it(box_of, tmp_path):
    box = box_of(3)
    hold(box, "--on", "0", "--time", "1m")
    whole = open(box["THOLE_MACHINE"]).read()
    with waits(box, "--on", "0,1", "-g", "2") as waiter:
        changed(tmp_path, box, lambda gpus: gpus.pop(1))
        while "waiting for that to change" not in (told := waiter.stderr.readline()):
            assert told
        becomes(tmp_path, box, whole)
        assert comes(box, "--on", "1") == 75


@pytest.mark.parametrize("who", ["claimed", "free"])
def test_who_comes_while_a_gpu_does_not_answer_stands_in_line(box_of, tmp_path, who):
    box = box_of(2)
    whole = open(box["THOLE_MACHINE"]).read()
    held = thole(box, "claim", "-q", "-g", "2").stdout.strip() if who == "claimed" else ""
    changed(tmp_path, box, lambda gpus: gpus[0].update(health="hung"))
    waiters = line_up(box, tmp_path / "begun", ["-g", "2"], ["-g", "2"])
    assert not held or thole(box, "release", held).returncode == 0
    assert thole(box, "run", "--no-wait", "--on", "1", "true").returncode == 0, "nobody waits for what is not there"
    assert len(line(box)) == 2
    becomes(tmp_path, box, whole)
    assert [one.wait(60) for one in waiters] == [0, 0]
    assert (tmp_path / "begun").read_text().split() == ["1", "2"]


def test_a_wait_outlasts_units_that_nobody_knows(box_of, tmp_path):
    """The machine shows others for a moment: a GPU being partitioned, say."""
    box = box_of(1)
    held = thole(box, "claim").stdout.strip()
    assert thole(box, "init").returncode == 0
    whole = open(box["THOLE_MACHINE"]).read()
    with waits(box) as waiter:
        changed(tmp_path, box, lambda gpus: gpus[0].update(uuid="GPU-ffffffff-0000-0000-0000-000000000000"))
        assert thole(box, "release", held).returncode == 0
        eventually(lambda: comes(box, "--no-wait") in (69, 75), "nobody can have that one")
        becomes(tmp_path, box, whole)
        assert waiter.wait(60) == 0, waiter.stderr.read()


def test_who_has_all_of_a_gpu_has_its_instances_when_it_is_partitioned(tmp_path):
    """By root, while somebody holds it without using it."""
    parted = json.loads((MACHINES / "mig-a100.json").read_text())
    whole = json.loads(json.dumps(parted))
    whole["gpus"][0].update(mig=[], mig_mode=False)
    (tmp_path / "machine.json").write_text(json.dumps(whole))
    with made(tmp_path, str(tmp_path / "machine.json")) as box:
        assert thole(box, "init").returncode == 0
        held = thole(box, "claim", "--on", "0").stdout.strip()
        changed(tmp_path, box, lambda gpus: gpus[0].update(parted["gpus"][0]))
        assert thole(box, "init").returncode == 0
        assert comes(box, "--on", "0:0") == comes(box, "--on", "0:0", "--trust-claims") == 75
        with waits(box, "--on", "0:1") as waiter:
            assert comes(box, "--on", "1") == 0
            waiter.kill()
        assert thole(box, "release", held).returncode == 0
        assert comes(box, "--on", "0:0") == 0


# Tasks that note what they are shown, and whether somebody has said so (`changed`), until there is a file `end`.
NOTES = '[ -e end ] || { echo "$CUDA_VISIBLE_DEVICES $(ls changed 2> /dev/null)" >> shown; sleep 0.1; }'


@pytest.fixture
def driver(tmp_path):
    driver = Driver(tmp_path, 4)
    driver.with_library_of_its_own(tmp_path)
    driver.environment |= {"THOLE_QUEUE_DIR": str(tmp_path / "queue"), "THOLE_BIND": "none"}
    return driver


def shown(folder):
    file = folder / "shown"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@contextlib.contextmanager
def many_tasks(driver, folder, how, *words):
    words = [how, *words] + (["-j", "1"] if how == "map" else ["-q", "--array", "0-499", "--"]) + ["sh", "-c", NOTES]
    words += [":::", *map(str, range(500))] if how == "map" else []
    with subprocess.Popen([THOLE, *words], env=driver.environment, cwd=folder, stderr=subprocess.PIPE, text=True) as started:
        eventually(lambda: shown(folder), "the first runs")
        try:
            yield started
        finally:
            (folder / "end").touch()
    assert started.returncode == 0
    assert how == "map" or driver.thole("wait", "1").returncode == 0


def without(driver, gone, *more):
    """The library lists the others."""
    left = [i for i in range(4) if i != gone]
    driver.configure("gpus 3", *(line for new, old in enumerate(left) for line in (
        f"gpu {new} uuid {driver.uuid(old)}", f"gpu {new} pci {driver.pci(old)}", f"gpu {new} minor {old}")), *more)


@pytest.mark.parametrize("how", ["map", "submit"])
def test_who_begins_when_another_gpu_has_failed_is_shown_its_own_by_name(driver, tmp_path, how):
    """The kernel's files list it as before; the driver's numbers are others."""
    with many_tasks(driver, tmp_path, how, "--on", "2"):
        without(driver, 1)
        eventually(lambda: shown(tmp_path)[-1] == [driver.uuid(2)], "it is noticed")
    assert {words[0] for words in shown(tmp_path)} == {"2", driver.uuid(2)}


@pytest.mark.parametrize("how", ["map", "submit"])
def test_nobody_begins_by_an_old_number_while_another_gpu_does_not_answer(driver, tmp_path, how):
    with many_tasks(driver, tmp_path, how, "--on", "1"):
        for folder in ("proc/driver/nvidia/gpus", "sys/bus/pci/devices"):
            shutil.rmtree(driver.root / folder / driver.pci(1))
        without(driver, 1, "gpu 2 hang nvmlDeviceGetMemoryInfo_v2", "gpu 2 hang nvmlDeviceGetMemoryInfo")
        (tmp_path / "changed").touch()
        eventually(lambda: not json.loads(driver.thole("status", "--json").stdout)["claims"], "its lane gives it back")
        driver.set_gpus(4)
        os.remove(tmp_path / "changed")
        seen = len(shown(tmp_path))
        eventually(lambda: len(shown(tmp_path)) > seen, "it goes on")
    assert {words[0] for words in shown(tmp_path) if len(words) == 1} == {"1"}
    assert ["1", "changed"] not in shown(tmp_path)[2:]


def test_no_task_begins_on_an_instance_that_is_gone(driver, tmp_path):
    def instances(count):
        one = "gpu 0 instance MIG-aaaaaaa{0}-0000-4000-8000-000000000001 {0} 0 3 3 40000 0 3g.40gb"
        driver.configure("gpus 4", "gpu 0 mig 1", *(one.format(i) for i in range(1, 1 + count)))

    instances(2)
    with many_tasks(driver, tmp_path, "map", "--on", "0:1"):
        instances(0)
        eventually(lambda: not json.loads(driver.thole("status", "--json").stdout)["claims"], "its lane gives it back")
        seen = len(shown(tmp_path))
        instances(2)
        eventually(lambda: len(shown(tmp_path)) > seen, "it goes on")


def test_instances_of_a_gpu_that_was_partitioned_under_its_claim_are_claimed_as_long(driver, tmp_path):
    driver.set_gpus(2)
    with Started([THOLE, "run", "--on", "1", "--", "sh", "-c", "echo up; exec cat"], env=driver.environment) as whole:
        assert whole.line() == "up"
        one = "gpu 1 instance MIG-aaaaaaa{0}-0000-4000-8000-000000000001 {0} 0 3 3 40000 0 3g.40gb"
        driver.configure("gpus 2", "gpu 1 mig 1", one.format(1), one.format(2))
        units = json.loads(driver.thole("status", "--json").stdout)["units"]
        assert {unit["unit"]: unit["state"] for unit in units} == {"0": "idle", "1:0": "claimed", "1:1": "claimed"}
        assert "claimed by" in driver.thole("why", "1:0").stdout
        for words in (["--on", "1:0"], ["--on", "1:0,1:1", "-g", "1"]):
            done = driver.thole("run", *words, "--no-wait", "--", "true")
            assert done.returncode == 75 and "no start can be promised" in done.stderr, done.stderr
            assert "1:0: free" not in done.stderr and "1:0,1:1: free" not in done.stderr, done.stderr
        with Started([THOLE, "run", "--on", "1:0", "--", "echo", "served"], env=driver.environment) as waiter:
            waiter.error_until("no start can be promised")
            behind = driver.thole("why", "-g", "1", "--on", "1:0,1:1").stdout
            assert "whose GPUs are free" not in behind and "starts by" not in behind, behind
            done = driver.thole("release", "1:0")
            assert done.returncode == 0, done.stderr
            assert waiter.line() == "served"


def used_by_tasks(folder):
    file = folder / "used"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize("words, first", [(["--on", "1,2"], "12"), ([], "0")], ids=["named", "any"])
def test_map_uses_what_was_away_or_comes_later(box_of, tmp_path, words, first):
    box = box_of(3) | {"THOLE_BIND": "none"}
    whole = json.loads(open(box["THOLE_MACHINE"]).read())["gpus"]
    uuids = [gpu["uuid"] for gpu in whole]
    task = '[ -e end ] || { echo "$THOLE_GPUS" | grep -o "GPU-[0-9a-f-]*" >> used; sleep 0.1; }'

    def there(which):
        changed(tmp_path, box, lambda gpus: gpus.__setitem__(slice(None), [whole[int(i)] for i in which]))

    if not words:
        there(first)
    with subprocess.Popen([THOLE, "map", "-q", *words, "sh", "-c", task, ":::", *map(str, range(999))], env=box,
                          cwd=tmp_path, start_new_session=True) as started:
        eventually(lambda: set(used_by_tasks(tmp_path)) == {uuids[int(i)] for i in first}, "what is there is used")
        if words:
            there("02")
            eventually(lambda: len(json.loads(thole(box, "status", "--json").stdout)["claims"]) == 1, "one is given back")
        seen = len(used_by_tasks(tmp_path))
        there("012")
        used = {uuids[1], uuids[2]} if words else set(uuids)
        eventually(lambda: set(used_by_tasks(tmp_path)[seen:]) == used, "all are used")
        (tmp_path / "end").touch()
        assert started.wait(60) == 0


def test_a_lane_whose_gpu_comes_back_has_it_before_who_comes_then(box_of, tmp_path):
    box = box_of(3) | {"THOLE_BIND": "none"}
    whole = open(box["THOLE_MACHINE"]).read()
    task = '[ -e end ] || { echo >> began; sleep 0.1; }'
    with subprocess.Popen([THOLE, "map", "-q", "--on", "1", "sh", "-c", task, ":::", *map(str, range(999))], env=box,
                          cwd=tmp_path, start_new_session=True) as started:
        eventually((tmp_path / "began").exists, "it runs")
        changed(tmp_path, box, lambda gpus: gpus.pop(1))
        eventually(lambda: len(json.loads(thole(box, "status", "--json").stdout)["queue"]) == 1, "it stands in line")
        becomes(tmp_path, box, whole)
        assert comes(box, "--on", "1") == 75
        (tmp_path / "end").touch()
        assert started.wait(60) == 0
