"""A claim is a smaller machine for what runs inside it, also for programs that lost every descriptor (Python's subprocess)."""
import os
import signal
import subprocess
import sys

import pytest

from run_tools import THOLE, Started, eventually

# The program inside `run -g 2`: does what `inside` says, by Python's subprocess (close_fds is its default).
INSIDE = r"""
import json, os, subprocess, sys
THOLE = sys.argv[1]
def thole(*words, **more):
    return subprocess.Popen([THOLE, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **more)
def uuids(process):
    return sorted(gpu["uuid"] for gpu in json.loads(process.stdout.readline()))
SHOW = ["--", "sh", "-c", 'printf "%s\\n" "$THOLE_GPUS"; cat >/dev/null']
mine = sorted(gpu["uuid"] for gpu in json.loads(os.environ["THOLE_GPUS"]))
"""


@pytest.fixture
def box(tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("THOLE")}
    environment.update(
        THOLE_MACHINE="4xA100", THOLE_STATE_DIR=str(tmp_path / "state"), THOLE_PERSONAL_DIR=str(tmp_path / "run")
    )
    (tmp_path / "run").mkdir(mode=0o700)
    return environment


def run_inside(box, code, gpus=2):
    done = subprocess.run([THOLE, "run", "-q", "-g", str(gpus), "--", sys.executable, "-c", INSIDE + code, THOLE],
                          capture_output=True, text=True, env=box, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_as_many_as_the_claim_has_reuses_it(box):
    lines = run_inside(box, """
inner = thole("run", "-q", "--no-wait", "-g", "2", *SHOW)
assert uuids(inner) == mine
inner.communicate()
assert inner.returncode == 0
print("reused")
""")
    assert lines == ["reused"]


def sharers_word(box, outer, *inner):
    """What a program inside the inner claim is told of its part of the GPU; None when the inner one is refused."""
    done = subprocess.run([THOLE, "run", "-q", *outer, "--", THOLE, "run", "-q", *inner, "--no-wait", "printenv",
                           "XLA_PYTHON_CLIENT_MEM_FRACTION"], capture_output=True, text=True, timeout=60,
                          env={**box, "THOLE_MACHINE": "dgx-a100"})   # of 80 GiB
    assert done.returncode in (0, 64), done.stderr
    assert done.returncode == 0 or "the claim around this has a share of" in done.stderr, done.stderr
    return done.stdout.strip() or None


@pytest.mark.parametrize("outer, inner, told", [
    (["--share", "--memory", "8G"], ["--share", "--memory", "40G"], None),
    (["--share", "--memory", "39.5G"], ["--share", "--memory", "79G"], None),
    (["--share", "--memory", "8G"], ["--memory", "20G"], None),
    (["--share", "--memory", "8G"], ["--share", "--memory", "8G"], "0.100"),
    (["--share", "--memory", "8G"], ["--share", "--memory", "4G"], "0.050"),
    (["--share", "--memory", "8G"], ["--memory", "4G"], "0.100"),
    (["--share", "--memory", "8G", "-g", "2"], [], "0.100"),
])
def test_a_sharers_figure_binds_what_claims_within(box, outer, inner, told):
    assert sharers_word(box, outer, *inner) == told


def test_a_share_binds_through_an_exclusive_claim_within_it(box):
    inner = ["--", THOLE, "run", "-q", "--share", "--memory", "40G"]
    assert sharers_word(box, ["--share", "--memory", "8G", "-g", "2"], *inner) is None


@pytest.mark.parametrize("outer, each, fit", [(["--share", "--memory", "8G"], "7G", 1),
                                              (["--share", "--memory", "8G"], "3.5G", 2),
                                              ([], "15G", 5)])
def test_sharers_within_a_claim_have_no_more_than_it_together(box, outer, each, fit):
    code = f"""
got = [thole("run", "-q", "--no-wait", "--share", "--memory", "{each}", *SHOW) for _ in range(6)]
held = [one for one in got if one.stdout.readline()]
for one in got:
    one.communicate()
print(len(held), sorted(one.returncode for one in got))
"""
    done = subprocess.run([THOLE, "run", "-q", *outer, "--", sys.executable, "-c", INSIDE + code, THOLE],
                          capture_output=True, text=True, env=box, timeout=60)   # of 80 GiB
    assert done.stdout.split(" ", 1)[0] == str(fit), done.stdout + done.stderr


@pytest.mark.parametrize("mask, gpus, got", [("1", 1, "1"), ("1,0", 2, "1,0"), ("1", 2, None), ("3", 1, None), ("", 1, None)])
def test_a_mask_narrows_what_the_claim_has(box, mask, gpus, got):
    """As it does outside of one: a pool's worker and a user's own variable name a part of the claim."""
    show = [THOLE, "run", "-q", "--no-wait", "-g", str(gpus), "--", "printenv", "CUDA_VISIBLE_DEVICES"]
    done = subprocess.run([THOLE, "run", "-q", "-g", "2", "--on", "0,1", "--", "env", f"CUDA_VISIBLE_DEVICES={mask}", *show],
                          capture_output=True, text=True, env=box, timeout=60)
    if got is None:
        assert done.returncode == 64 and "CUDA_VISIBLE_DEVICES leaves" in done.stderr, done.stderr
    else:
        assert done.stdout.strip() == got, done.stderr


def test_a_list_of_an_engine_that_is_not_the_claims_narrows_nothing_inside(box):
    """A queued job has the variables of the shell that submitted it."""
    inner = [THOLE, "run", "-q", "--no-wait", "--", "printenv", "CUDA_VISIBLE_DEVICES"]
    done = subprocess.run([THOLE, "run", "-q", "--on", "1", "--", "env", "SLURM_JOB_GPUS=3", "PBS_GPUFILE=/nowhere", *inner],
                          capture_output=True, text=True, env=box, timeout=60)
    assert done.stdout == "1\n", done.stderr


def test_two_of_one_each_get_different_gpus_and_a_third_waits_for_them(box):
    lines = run_inside(box, """
one = thole("run", "-q", "--no-wait", "-g", "1", *SHOW)
two = thole("run", "-q", "--no-wait", "-g", "1", *SHOW)
first, second = uuids(one), uuids(two)
assert sorted(first + second) == mine, (first, second, mine)
refused = thole("run", "-q", "--no-wait", "-g", "1", "--", "true")
refused.communicate()
assert refused.returncode == 75, refused.returncode
third = thole("run", "-q", "-g", "1", *SHOW)
two.communicate()                       # ends the second: its GPU goes to the third
assert uuids(third) == second
one.communicate(); third.communicate()
assert one.returncode == two.returncode == third.returncode == 0
print("leased")
""")
    assert lines == ["leased"]


def test_more_than_the_claim_has_is_refused_at_once(box):
    lines = run_inside(box, """
three = thole("run", "-q", "-g", "3", "--", "true")
out, err = three.communicate()
print(three.returncode, err.strip())
""")
    assert lines[0].startswith("64 thole: 3 GPUs asked for"), lines


def test_a_lease_inside_a_lease(box):
    lines = run_inside(box, """
inner = thole("run", "-q", "-g", "2", "--", sys.executable, "-c", '''
import json, os, subprocess, sys
deep = subprocess.run([sys.argv[1], "run", "-q", "--no-wait", "-g", "1", "--", "sh", "-c",
                       'printf "%s %s" "$THOLE_CLAIM" "$CUDA_VISIBLE_DEVICES"'], capture_output=True, text=True)
print(os.environ["THOLE_CLAIM"], deep.stdout, deep.returncode)
''', THOLE)
print(inner.communicate()[0].strip())
""", gpus=3)
    outer, deep, devices, status = lines[0].split()
    assert deep.startswith(outer + "/") and outer.count("/") == 1, lines
    assert len(devices.split(",")) == 1 and status == "0"


def test_with_the_supervisor_killed_the_claim_still_holds_and_still_leases(box):
    started = Started([THOLE, "run", "-q", "-g", "2", "--", sys.executable, "-u", "-c", INSIDE + """
print("up", os.getpid())
sys.stdin.readline()
one = thole("run", "-q", "--no-wait", "-g", "1", *SHOW)
first = uuids(one)
whole = thole("run", "-q", "--no-wait", "-g", "2", *SHOW)
assert uuids(whole) == mine
one.communicate(); whole.communicate()
print("leased", first[0] in mine)
""", THOLE], env=box)
    job = int(started.line().split()[1])
    os.kill(started.pid, signal.SIGKILL)
    started.process.wait()
    busy = subprocess.run([THOLE, "run", "-q", "--no-wait", "-g", "3", "--", "true"], env=box, capture_output=True, text=True)
    assert busy.returncode == 75, busy.stderr     # two of the four are still held
    started.process.stdin.write(b"go\n")
    assert started.line() == "leased True"
    eventually(lambda: subprocess.run([THOLE, "run", "-q", "--no-wait", "-g", "4", "--", "true"], env=box,
                                      capture_output=True).returncode == 0, "all are free after the job's end")
    assert job


def test_a_stale_claim_in_the_environment_is_ignored(box):
    done = subprocess.run(
        [THOLE, "run", "-q", "--no-wait", "-g", "3", "--", "true"], env={**box, "THOLE_CLAIM": "0123456789abcdef"}
    )
    assert done.returncode == 0


def test_a_claim_by_itself_leaves_nothing_behind(box):
    run_inside(box, """
one = thole("run", "-q", "--no-wait", "-g", "1", "--", "true")
one.communicate()
""")
    subprocess.run([THOLE, "run", "-q", "-g", "2", "--", "true"], env=box, check=True)
    leftovers = [name for name in os.listdir(box["THOLE_PERSONAL_DIR"]) if len(name) == 16]
    assert leftovers == [], "directories of dead claims"


def test_the_order_asked_for_is_the_order_of_the_devices_also_inside(box):
    show = 'echo "$CUDA_VISIBLE_DEVICES"'
    inside = (f"{show}; $0 run -q -g 3 -- sh -c '{show}'; $0 run -q -g 2 -- sh -c '{show}'; $0 run -q -g 2 --order 0,3 -- "
              f"sh -c '{show}'")
    done = subprocess.run([THOLE, "run", "-q", "-g", "3", "--order", "3,0,2", "--", "sh", "-c", inside, THOLE],
                          capture_output=True, text=True, env=box, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["3,0,2", "3,0,2"] and lines[3] == "0,3", done.stdout + done.stderr
    assert lines[2] in ("3,0", "3,2", "0,2")
