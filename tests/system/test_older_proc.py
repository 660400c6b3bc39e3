"""A pid namespace of its own with the /proc of another one, whose numbers name other processes (`unshare -p` alone)."""
import contextlib
import json
import shlex
import subprocess
import sys

import pytest

import claim_box
from run_tools import THOLE, eventually

# The older /proc is that of a container of the test's own: what can be mistaken there is the child of its first process.
AROUND = ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c"]
RUN = f"{shlex.quote(str(THOLE))} run -q -g 1 -- "
UNSEEN = "what the command left running is neither named nor ended: /proc is that of another pid namespace"


@pytest.fixture
def box(tmp_path):
    probe = subprocess.run([*AROUND, "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("no namespaces of one's own can be made here")
    with claim_box.made(tmp_path, "2xA100") as environment:
        yield environment


def in_older_proc(box, script):
    """Beside a process that has the parent 1 there. Prints what the script does, and whether that process still lives."""
    done = subprocess.run([*AROUND, "sleep 4711 & stranger=$!; " + script + "; kill -0 $stranger && echo lives"], env=box,
                          capture_output=True, text=True, timeout=60)
    return done.stdout.split(), " ".join(done.stderr.split())


def test_strangers_with_our_numbers_are_neither_named_nor_ended(box):
    out, told = in_older_proc(box, f"unshare -p -f {RUN} true; echo $?")
    assert out == ["0", "lives"] and told == "", told


def test_what_is_left_there_is_said_to_be_unseen(box):
    script = shlex.quote(RUN + "sh -c 'sleep 4712 & exit 3'; echo $?")
    out, told = in_older_proc(box, f"unshare -p -f sh -c {script}")
    assert out == ["3", "lives"] and told.count(UNSEEN) == 1 and "4711" not in told, told


def test_what_a_task_of_map_leaves_there_is_ended_before_its_gpu_is_given_back(box):
    task = "setsid sleep 4713 < /dev/null > /dev/null 2>&1 & echo $! > left"
    script = shlex.quote(f"{shlex.quote(str(THOLE))} map -q -g 1 sh -c {shlex.quote(task)} sh ::: 1; echo $?; "
                         "kill -0 $(cat left) 2> /dev/null && echo left || echo ended; kill -9 $(cat left) 2> /dev/null")
    out, told = in_older_proc(box, f"cd $THOLE_PERSONAL_DIR; unshare -p -f sh -c {script}")
    assert out == ["0", "ended", "lives"] and "/proc does not show what it is" in told and "4711" not in told, told


AHEAD = ["unshare", "-T", "--boottime", "100000", "-f"]


@pytest.mark.parametrize("claims, enters", [(AHEAD, []), ([], AHEAD)], ids=["from outside", "from within"])
def test_a_claim_of_another_time_namespace_that_nobody_keeps_is_entered(box, claims, enters):
    """Each namespace is told another start of the process that has the locks."""
    if subprocess.run([*AHEAD, "true"], capture_output=True).returncode != 0:
        pytest.skip("no time namespaces can be made here")
    with subprocess.Popen([*claims, THOLE, "run", "-q", "--no-supervisor", "-g", "2", "--", "sh", "-c",
                           "echo $THOLE_CLAIM; cat"],
                          env=box, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as outer:
        inside = {**box, "THOLE_CLAIM": outer.stdout.readline().strip()}
        done = subprocess.run([*enters, THOLE, "run", "-q", "-g", "1", "--", "echo", "ran"], env=inside, capture_output=True,
                              text=True, timeout=60)
        outer.stdin.close()
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_a_claim_from_before_the_zero_of_a_time_namespace_is_entered(box):
    """There the kernel tells a start that its clock never reaches."""
    uptime = lambda: int(float(open("/proc/uptime").read().split()[0]))
    with subprocess.Popen([THOLE, "run", "-q", "--no-supervisor", "-g", "2", "--", "sh", "-c", "echo $THOLE_CLAIM; cat"],
                          env=box, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as outer:
        inside, begun = {**box, "THOLE_CLAIM": outer.stdout.readline().strip()}, uptime()
        eventually(lambda: uptime() > begun, "a whole second since it began")
        behind = ["unshare", "-T", "--boottime", str(-uptime()), "-f"]
        if subprocess.run([*behind, "true"], capture_output=True).returncode != 0:
            outer.stdin.close()
            pytest.skip("no time namespaces can be made here")
        done = subprocess.run([*behind, THOLE, "run", "-q", "-g", "1", "--", "echo", "ran"], env=inside, capture_output=True,
                              text=True, timeout=60)
        owners = [one["verified"] for one in json.loads(subprocess.run([*behind, THOLE, "status", "--json"], env=box, text=True,
                                                                       capture_output=True, timeout=60).stdout)["claims"]]
        outer.stdin.close()
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert owners == [True, True]


AHEAD_BY_PART = """
import ctypes, os, sys
assert ctypes.CDLL(None).unshare(0x80) == 0                    # CLONE_NEWTIME
open("/proc/self/timens_offsets", "w").write("boottime 1 4700000\\n")
pid = os.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_claim_of_a_time_namespace_ahead_by_part_of_a_tick_has_its_owner(box):
    """It is told its start in ticks that are cut elsewhere than ours: of seven one at least is told another one."""
    ahead, eight = [sys.executable, "-c", AHEAD_BY_PART], {**box, "THOLE_MACHINE": "8xA100"}
    if subprocess.run([*ahead, "/bin/true"], capture_output=True).returncode != 0:
        pytest.skip("no time namespaces can be made here")
    with contextlib.ExitStack() as all_of_them:
        for _ in range(7):
            outer = all_of_them.enter_context(
                subprocess.Popen([*ahead, THOLE, "run", "-q", "--", "sh", "-c", "echo up; cat"], env=eight,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            assert outer.stdout.readline() == "up\n"
        status = subprocess.run([THOLE, "status", "--json"], env=eight, capture_output=True, text=True, timeout=60)
        holders = json.loads(status.stdout)["claims"]
        assert len(holders) == 7 and all(one["verified"] and one["id"] for one in holders), holders
