"""What is claimed inside a claim is released, extended and entered by its own id: the claim around it goes on."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

import claim_box
from claim_box import thole
from run_tools import THOLE, Started, eventually, gone


@pytest.fixture
def box(tmp_path):
    with claim_box.made(tmp_path, "8xA100") as environment:
        yield environment


def inside(box, script, gpus=4):
    """Standard output of a shell script inside a claim; it ran to its end, so nothing ended the claim."""
    done = thole(box, "run", "-q", "-g", str(gpus), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("variables, to_unset", [("", ""), ("CUDA_VISIBLE_DEVICES=0", "unset CUDA_VISIBLE_DEVICES")])
def test_more_than_the_claim_has_is_refused_and_a_mask_is_to_be_unset_only_where_it_narrows_the_claim(box, variables, to_unset):
    told = " ".join(inside(box, f'{variables} "$thole" run -g 3 true 2>&1; true', gpus=2))
    assert "of the 8 that would do" in told and "thole claims within what was allotted, never outside it" in told, told
    assert to_unset in told and ("unset" in told) == bool(to_unset), told


@pytest.mark.parametrize("words", ['"$C"', '"${C%????????}"', '"${C#*/}"', "3"])
def test_an_inner_claim_is_released_by_its_name_and_the_outer_one_goes_on(box, words):
    lines = inside(box, f'C=$("$thole" -q claim --on 3); "$thole" release {words} 2>&1; [ "$C" ] && echo $C; '
                        '"$thole" run -q --no-wait --on 3 -- echo "is free"')
    released, claim, free = lines
    assert "/" in claim and released.endswith(f"released {claim}") and free == "is free", lines


def test_a_bare_release_ends_the_innermost_claim_of_the_shell(box):
    lines = inside(box, 'A=$THOLE_CLAIM; eval "$("$thole" -q claim --shell -g 2)"; B=$THOLE_CLAIM; '
                        'sh -c \'eval "$("$thole" -q claim --shell -g 1)"; echo $THOLE_CLAIM; "$thole" release 2>&1\'; '
                        'echo $B; "$thole" release 2>&1; "$thole" release 2>&1; echo $?; unset THOLE_GPUS '
                        'CUDA_VISIBLE_DEVICES; THOLE_CLAIM=$A "$thole" run -q --no-wait -g 3 -- echo "is free"')
    deepest, released = lines[:2]
    second = deepest.rpartition("/")[0]
    assert second.count("/") == 1 and f"released {deepest}" in released and second in lines, lines
    text = "\n".join(lines[2:])
    assert f"released {second}" in text and "the claim of this shell has ended" in text and "\n64\n" in text, lines
    assert lines[-1] == "is free"


def test_a_gpu_without_an_inner_claim_still_means_the_claim_around(box):
    script = '"$thole" -q claim --on 1 >/dev/null; "$thole" extend 0 1s; exec sleep 600'
    done = thole(box, "run", "-q", "-g", "2", "--on", "0,1", "--", "sh", "-c", script)
    assert "its time is over" in done.stderr, done.stderr


def test_extend_moves_the_limit_of_the_inner_claim_alone(box):
    lines = inside(box, 'C=$("$thole" -q claim -g 2); "$thole" extend "$C" 1s 2>&1; timeout 20 "$thole" run -q -g 3 -- '
                        'echo "it ended"')
    assert "claim " in lines[0] and " ends " in lines[0] and lines[1] == "it ended", lines


def test_run_in_an_inner_claim_has_its_gpu_and_no_siblings(box):
    lines = inside(box, 'S=$("$thole" -q claim --on 0); C=$("$thole" -q claim --on 2); '
                        '"$thole" run -q --in "$C" -- sh -c \'echo $CUDA_VISIBLE_DEVICES $THOLE_CLAIM\'; echo $C')
    assert lines[0] == f"2 {lines[1]}", lines


def outer_and_inner(box):
    outer = thole(box, "-q", "claim", "-g", "4").stdout.strip()
    inner = thole(box, "-q", "claim", "--on", "2", THOLE_CLAIM=outer).stdout.strip()
    assert inner.startswith(outer + "/")
    return outer, inner


def test_the_whole_id_works_from_outside(box):
    outer, inner = outer_and_inner(box)
    shown = thole(box, "run", "-q", "--in", inner, "--", "printenv", "CUDA_VISIBLE_DEVICES")
    assert shown.stdout == "2\n", shown.stderr
    assert thole(box, "release", inner[:-8]).returncode == 0
    again = thole(box, "release", inner)
    assert again.returncode == 64 and "no such claim" in again.stderr and f"thole release {outer}" in again.stderr, again.stderr
    assert thole(box, "run", "-q", "--no-wait", "-g", "5", "--", "true").returncode == 75       # the outer one goes on
    assert thole(box, "release", "2").returncode == 0                                            # a GPU from outside: the outer
    assert thole(box, "run", "-q", "--no-wait", "-g", "8", "--", "true").returncode == 0


def test_a_path_that_is_cut_off_is_never_the_claim_around(box):
    outer, inner = outer_and_inner(box)
    for word in (outer + "/", inner[:20], outer + "/0123456789abcdef", inner + "/0123456789abcdef"):
        done = thole(box, "release", word)
        assert done.returncode == 64, (word, done.stderr)
    assert json.loads(thole(box, "release", "--json", inner).stdout)["claims"] == [inner]
    assert thole(box, "release", outer).returncode == 0


def test_in_a_queued_job_an_inner_claim_is_released(box, tmp_path):
    script = 'C=$("$thole" -q claim -g 1); "$thole" release "$C" 2>&1; "$thole" run -q --no-wait -g 1 -- echo ended'
    assert thole(box, "submit", "-q", "-g", "2", "--", "sh", "-c", script).returncode == 0
    assert thole(box, "wait", "1").returncode == 0
    logs = thole(box, "logs", "1").stdout
    assert "released" in logs and "\nended\n" in logs, logs


def test_of_a_killed_inner_supervisor_the_command_is_named(box):
    outer = Started([THOLE, "run", "-q", "-g", "4", "--", "sh", "-c",
                     '"$thole" run -q -g 1 -- sh -c \'echo $THOLE_CLAIM $PPID $$; exec sleep 600\' & '
                     'read go; "$thole" release "$go" 2>&1; echo $?; read go'], env=box)
    claim, supervisor, command = outer.line().split()
    os.kill(int(supervisor), signal.SIGKILL)
    eventually(lambda: gone(int(supervisor)))
    outer.process.stdin.write(claim.encode() + b"\n")
    outer.process.stdin.flush()
    said = []
    while not said or not said[-1].isdigit():
        said.append(outer.line())
    text = "\n".join(said)
    assert said[-1] == "69" and f"kill {command}" in text and text.count("kill ") == 1, text
    os.kill(int(command), signal.SIGKILL)
    outer.process.stdin.write(b"end\n")
    outer.process.stdin.flush()


def keeper_of(box, claim):
    """The process that holds the lock on the claim's directory: the kernel names it."""
    inode = os.stat(os.path.join(box["THOLE_PERSONAL_DIR"], claim.rpartition("/")[2])).st_ino

    def named():
        for line in pathlib.Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "FLOCK" in fields and fields[-3].endswith(f":{inode}"):
                return int(fields[-4])
        return None

    return eventually(named, f"somebody keeps {claim}: a list that others' locks move may lack a line")


@pytest.mark.parametrize("end", ["release", "kill"])
def test_the_keepers_of_inner_claims_end_with_the_outer_one(box, end):
    outer, inner = outer_and_inner(box)
    middle = thole(box, "-q", "claim", "-g", "2", THOLE_CLAIM=outer).stdout.strip()
    deepest = thole(box, "-q", "claim", "-g", "1", THOLE_CLAIM=middle).stdout.strip()
    assert deepest.startswith(middle + "/")
    keepers = [keeper_of(box, claim) for claim in (inner, middle, deepest)]
    if end == "kill":
        os.kill(keeper_of(box, outer), signal.SIGKILL)
    else:
        assert thole(box, "release", outer).returncode == 0
    for keeper in keepers:
        eventually(lambda keeper=keeper: gone(keeper), "the keeper ends")


def lives_on(box, outer, *words):
    """A command that waits, started in the claim from another shell."""
    job = Started([THOLE, "run", "-q", *words, "--", "sh", "-c", "echo $THOLE_CLAIM; read line; exit 4"],
                  env={**box, "THOLE_CLAIM": outer})
    assert job.line().startswith(outer)
    return job


def is_kept(box):
    """Are GPUs 0 and 1, of which the claim is, given to nobody, whatever the driver says?"""
    words = ["run", "-q", "--no-wait", "--trust-claims", "--on"]
    return all(thole(box, *words, gpu, "--", "true").returncode == 75 for gpu in "01")


@pytest.mark.parametrize("end", ["release", "kill", "time"])
@pytest.mark.parametrize("inside", ["the whole", "a part", "an inner claim", "deeper"])
def test_what_runs_in_a_claim_keeps_it_from_others_whatever_ends_its_keeper(box, inside, end):
    outer = thole(box, "-q", "claim", "-g", "2", "--on", "0,1").stdout.strip()
    words = {"the whole": ["-g", "2"], "a part": ["-g", "1"]}.get(inside)
    within = outer
    if not words:
        inner = thole(box, "-q", "claim", "--on", "0", THOLE_CLAIM=outer).stdout.strip()
        words, within = (["--in", inner], outer) if inside == "an inner claim" else (["-g", "1"], inner)
    with lives_on(box, within, *words) as job:
        keeper = keeper_of(box, outer)
        if end == "kill":
            os.kill(keeper, signal.SIGKILL)
        elif end == "time":
            assert thole(box, "extend", outer, "1s").returncode == 0
        else:
            done = thole(box, "release", outer)
            assert done.returncode == 69 and "what was started in it keeps the GPUs" in done.stderr, done.stderr
        eventually(lambda: gone(keeper), "the keeper ends")
        assert is_kept(box)
        late = thole(box, "run", "-q", "-g", "2", "--no-wait", "--", "true", THOLE_CLAIM=outer)
        assert late.returncode == 69 and "keeps the GPUs; to end it:" in late.stderr, late.stderr
        job.write("end\n")
        assert job.wait() == 4
    eventually(lambda: thole(box, "run", "-q", "--no-wait", "-g", "8", "--", "true").returncode == 0, "all is free")


def test_who_waits_inside_a_claim_that_ends_gets_nothing_of_it(box):
    outer = thole(box, "-q", "claim", "-g", "2", "--on", "0,1").stdout.strip()
    inner = thole(box, "-q", "claim", "--on", "0", THOLE_CLAIM=outer).stdout.strip()
    with Started([THOLE, "run", "--on", "0", "--", "echo", "has it"], env={**box, "THOLE_CLAIM": outer}) as waiter:
        waiter.error_until("waiting")
        assert thole(box, "release", outer).returncode == 0      # who waits keeps nothing
        assert waiter.wait() == 69
        assert inner.startswith(outer) and waiter.process.stdout.read() == b""


@pytest.mark.parametrize("outer, inner, told", [("8G", ["--share", "--memory", "4G"], "0.050"),
                                                ("8G", ["--share", "--memory", "8G"], "0.100"),
                                                ("8G", ["-g", "1"], "0.100")])
def test_run_in_an_inner_sharing_claim_has_the_smaller_share(box, outer, inner, told):
    box = {**box, "THOLE_MACHINE": "dgx-a100"}   # of 80 GiB
    around = thole(box, "-q", "claim", "-g", "2", "--share", "--memory", outer).stdout.strip()
    within = thole(box, "-q", "claim", *inner, THOLE_CLAIM=around).stdout.strip()
    assert within.startswith(around + "/")
    shown = thole(box, "run", "-q", "--in", within, "--", "printenv", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    assert shown.stdout.strip() == told, shown.stderr


def of_another_place(box, tmp_path, **more):
    """A claim within a claim, held in other directories: it sweeps what it finds of claims that have ended."""
    elsewhere = {"THOLE_STATE_DIR": str(tmp_path / "another"), **more}
    assert thole(box, "run", "-q", "-g", "2", "--", THOLE, "run", "-q", "--", "true", **elsewhere).returncode == 0


def test_who_does_not_see_where_a_claim_is_held_takes_nothing_from_it(box, tmp_path):
    """In a container with the /tmp of the host, and a /run of its own, there is no state directory of the host's claims."""
    outer, inner = outer_and_inner(box)
    (tmp_path / "state").rename(tmp_path / "hidden")
    of_another_place(box, tmp_path)
    (tmp_path / "hidden").rename(tmp_path / "state")
    assert thole(box, "extend", inner, "2h").returncode == 0
    assert thole(box, "run", "-q", "--no-wait", "--on", "2", "--", "true", THOLE_CLAIM=outer).returncode == 75
    assert thole(box, "release", inner).returncode == 0
    assert thole(box, "run", "-q", "--no-wait", "--on", "2", "--", "true", THOLE_CLAIM=outer).returncode == 0
    assert thole(box, "release", outer).returncode == 0


def test_what_is_left_of_claims_whose_state_directory_is_gone_is_swept(box, tmp_path):
    outer, inner = outer_and_inner(box)
    here = tmp_path / "run" / outer
    keepers = [keeper_of(box, claim) for claim in (outer, inner)]
    for keeper in keepers:
        os.kill(keeper, signal.SIGKILL)
    for keeper in keepers:
        eventually(lambda keeper=keeper: gone(keeper), "the keeper ends")
    (tmp_path / "state").rename(tmp_path / "hidden")
    assert (here / "outer").exists()
    of_another_place(box, tmp_path)
    assert not here.exists()


def test_a_state_directory_named_from_here_is_the_same_from_elsewhere(box, tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    del box["THOLE_STATE_DIR"]
    outer = thole(box, "-q", "--state-dir", "book", "claim", "-g", "4").stdout.strip()
    inner = thole(box, "-q", "--state-dir", "book", "claim", "--on", "2", THOLE_CLAIM=outer).stdout.strip()
    monkeypatch.chdir(tmp_path / "two")
    of_another_place(box, tmp_path)
    monkeypatch.chdir(tmp_path / "one")
    for claim in (inner, outer):
        done = thole(box, "--state-dir", "book", "release", claim)
        assert done.returncode == 0, done.stderr


# --in with words of a request is the same as claiming inside; without any it has the whole.
def test_run_in_a_claim_obeys_the_words_of_a_request(box):
    claim = thole(box, "-q", "claim", "-g", "3", "--on", "1,2,3").stdout.strip()
    show = ["--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; read line"]
    first, second = (Started([THOLE, "run", "-q", "--in", claim, "-g", "1", *show], env=box) for _ in range(2))
    gpus = {first.line().strip(), second.line().strip()}
    assert len(gpus) == 2 and gpus < {"1", "2", "3"}, gpus
    third = ({"1", "2", "3"} - gpus).pop()
    words = ["run", "-q", "--no-wait", "--in", claim]
    # Masks of the place that it is run from say nothing of the GPUs of the claim.
    one = thole(box, *words, "--share", "--memory", "1G", "--", "printenv", "CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="0")
    assert one.stdout.strip() == third, one.stderr
    none = thole(box, *words, "-g", "2", "--", "true")
    assert none.returncode == 75, none.stderr
    for too_much in (["-g", "5"], ["--on", "0"], ["--model", "H100"]):
        refused = thole(box, *words, *too_much, "--", "echo", "ran")
        assert refused.returncode == 64 and not refused.stdout, (too_much, refused.stderr)
    whole = thole(box, *words, "--", "printenv", "CUDA_VISIBLE_DEVICES")
    assert whole.stdout.strip() == "1,2,3", whole.stderr
    for run in (first, second):
        run.write("go on\n")
        assert run.wait() == 0
    identity = thole(box, *words, "-g", "2", "--", "printenv", "THOLE_CLAIM").stdout.strip()
    assert identity.startswith(claim + "/"), identity
    dry = thole(box, *words, "--dry-run", "--", "true")
    assert dry.returncode == 64 and "--in" in dry.stderr, dry.stderr
    assert thole(box, "release", claim).returncode == 0


def test_of_many_processes_left_behind_the_first_are_named(box):
    done = thole(box, "run", "-g", "1", "--", "sh", "-c", "for i in $(seq 30); do setsid sleep 600 & done")
    assert "left 30 processes running" in done.stderr and "and 22 more" in done.stderr, done.stderr
    assert done.stderr.count("sleep 600") == 8, done.stderr


@pytest.mark.parametrize("by_option", [True, False], ids=["--in", "inside"])
def test_a_refusal_inside_a_claim_names_what_has_put_it_there(box, by_option):
    outer, inner = outer_and_inner(box)
    for claim, words in ((outer, ["-g", "5"]), (outer, ["--on", "7"]), (inner, ["-g", "3"])):
        where, more = (["--in", claim], {}) if by_option else ([], {"THOLE_CLAIM": claim})
        done = thole(box, "run", *where, *words, "--", "echo", "ran", **more)
        by = f"--in {claim}" if by_option else "THOLE_CLAIM"
        assert done.returncode == 64 and f"; {by} leaves " in done.stderr, done.stderr


@pytest.mark.parametrize("words", ["run --no-wait --in CLAIM -- true", "run --wait 300ms --in CLAIM -- true",
                                   "run --no-wait true",
                                   "run --wait 300ms true", "run --dry-run true", "why"])
def test_who_waits_inside_a_claim_is_told_of_its_gpus_alone(box, words):
    outer = thole(box, "-q", "claim", "-g", "4", "--on", "0-3").stdout.strip()
    assert "/" in thole(box, "-q", "claim", "-g", "2", "--on", "2,3", THOLE_CLAIM=outer).stdout
    by = f"--in {outer}" if "--in" in words else "THOLE_CLAIM"
    verb, *others = words.replace("CLAIM", outer).split()
    done = thole(box, verb, "-g", "3", *others, **({} if "--in" in words else {"THOLE_CLAIM": outer}))
    told = (done.stdout + done.stderr).partition("\n\n")[0]          # `why` goes on with each GPU
    assert "GPUs 0,1: free, and too few" in told and "GPUs 2,3: " in told, told
    assert f"this is inside claim {outer} ({by})" in " ".join(told.split()), told
    assert not re.search(r"GPUs? [0-9,]*[4-7]", told), told


@pytest.mark.parametrize("verb", ["release", "extend", "run"])
def test_of_an_inner_claim_that_is_not_there_those_are_named_that_are(box, verb):
    outer, inner = outer_and_inner(box)
    words = {"release": ["release", "CLAIM"], "extend": ["extend", "CLAIM", "1h"],
             "run": ["run", "--in", "CLAIM", "--", "true"]}
    for around, there in ((outer, inner), (inner, "there are none inside it")):
        done = thole(box, *[around + "/nosuch" if word == "CLAIM" else word for word in words[verb]])
        assert done.returncode == 64 and f"no such claim inside claim {around}: {around}/nosuch" in done.stderr, done.stderr
        assert there in done.stderr, done.stderr
        assert (f"thole release {around}" in done.stderr) == (verb == "release"), done.stderr


def test_an_inner_claim_that_nobody_keeps_is_named_by_its_whole_id(box):
    outer, inner = outer_and_inner(box)
    with lives_on(box, outer, "--in", inner) as job:
        os.kill(keeper_of(box, inner), signal.SIGTERM)
        eventually(lambda: not os.path.exists(os.path.join(box["THOLE_PERSONAL_DIR"], inner.rpartition("/")[2], "control")),
                   "its keeper lets go")
        for words in (["release", inner], ["extend", inner, "1h"], ["run", "--in", inner, "--", "true"]):
            done = thole(box, *words)
            assert done.returncode == 69 and f"nobody who keeps claim {inner} can be asked" in done.stderr, done.stderr
        job.write("end\n")
        assert job.wait() == 4


def test_why_answers_for_a_claim_by_its_id(box):
    outer, inner = outer_and_inner(box)
    gpus = json.loads(thole(box, "why", "--json", outer).stdout)["claims"][0]["gpus"]
    assert gpus == ["0", "1", "2", "3"]
    for word in (outer, outer[:8]):
        told = " ".join(thole(box, "why", word).stdout.split())
        assert told.startswith(f"claim {outer}: GPU 0,1,2,3, claimed by ") and "(thole claim)" in told, told
        assert f"inside it: claim {inner}, GPU 2 (thole claim)" in told and "no process uses its GPUs" in told, told
    for words, more in (([inner], {}), (["claim", inner], {}), ([inner.rpartition("/")[2]], {"THOLE_CLAIM": outer})):
        told = " ".join(thole(box, "why", *words, **more).stdout.split())
        assert told.startswith(f"claim {inner}: GPU 2, claimed by "), told
    both = thole(box, "why", "0", outer).stdout
    assert both.startswith("GPU 0: ") and f"\nclaim {outer}: " in both, both
    for word in ("fedcba9876543210", outer + "/fedcba9876543210"):
        none = thole(box, "why", word)
        assert none.returncode == 64 and "no such claim" in none.stderr and outer in none.stderr, none.stderr


def test_why_does_not_contradict_itself_about_a_claim_that_is_over(box):
    with Started(["sleep", "600"], env=box) as process:
        claim = thole(box, "-q", "claim", "--on", "0", "--time", "1s", "--pid", str(process.pid)).stdout.strip()
        eventually(lambda: "OVERDUE" in thole(box, "status").stdout, "its time is over")
        for word in ("0", claim):
            told = " ".join(thole(box, "why", word).stdout.split())
            assert "no longer claimed by" in told and "keeps nobody from the GPU" in told, told
            assert "but the claim holds" not in told, told
        assert "so anybody can claim it" in thole(box, "why", "0").stdout.replace("\n", " ")
