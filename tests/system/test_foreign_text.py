"""No name or text of another process, file, record or machine reaches a terminal unescaped: every command that informs, with
hostile text planted wherever it reads some, on a pipe and on a terminal."""
import json
import os
import re
import subprocess

import pytest

from hostile import Lab, end, lab  # noqa: F401 (the fixture)
from run_tools import THOLE, Terminal

# A title, a colour that the program uses too, a C1 control, a text turned round, and lines that look like the program's own.
MARK = "EVIL"
HOSTILE = f"a\x1b]0;{MARK}\x07\x1b[31m{MARK}\x9b7m\u202e{MARK}\u2028\n{MARK}\r{MARK}\x7f"
OWN = re.compile(r"\x1b\[(0|1|2|31|32|33)m")
FRAME = re.compile(r"\x1b\[(2J|H|K|J)")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def check(text, what, terminal=False):
    if terminal:
        text = text.replace("\r\n", "\n")
        assert f"\x1b[31m{MARK}" not in text, f"{what}: {text!r}"
        text = FRAME.sub("", OWN.sub("", text))
    found = CONTROL.search(text)
    assert not found, f"{what}: {found[0]!r} in {text[max(0, found.start() - 40):found.end() + 40]!r}"
    for line in text.split("\n"):
        assert not line.startswith(MARK), f"{what}: a line of its own: {text!r}"


def on_pipe(words, env, **more):
    done = subprocess.run(words, capture_output=True, env=env, timeout=120, stdin=subprocess.DEVNULL, **more)
    assert done.returncode >= 0, words
    check(done.stdout.decode(), f"{words} stdout")
    check(done.stderr.decode(), f"{words} stderr")
    return done.stdout.decode() + done.stderr.decode()


def on_terminal(words, env):
    terminal = Terminal(words, env)
    terminal.wait()
    check(terminal.seen, f"{words} on a terminal", terminal=True)


def hostile_machine():
    process = {"pid": 4711, "user": HOSTILE, "command": HOSTILE, "kind": "compute", "memory_mib": 500}
    def gpu(i, **more):
        return {"uuid": f"GPU-{i:08x}-0000-0000-0000-000000000000", "vendor": "nvidia", "model": f"Tesla {HOSTILE}", "minor": i,
                "pci": f"0000:{7 + i:02x}:00.0", "memory_mib": 1000, "numa": 0, **more}
    return {"schema": "thole/machine/1", "name": HOSTILE,
            "cpus": [{"id": i, "core": i, "numa": 0, "package": 0} for i in range(4)],
            "numa": [{"id": 0, "memory_mib": 4000}],
            "gpus": [gpu(0, use={"memory_used_mib": 900, "processes": [process]}),
                     gpu(1, use={"memory_used_mib": 0, "processes": []}),
                     gpu(2, health="lost", health_reason=HOSTILE, use={"memory_used_mib": 0, "processes": []})],
            "nics": [{"name": HOSTILE, "pci": "0000:20:00.0", "numa": 0}]}


def strings_of(json):
    """Every string of a JSON value."""
    if isinstance(json, str):
        yield json
    elif isinstance(json, (list, dict)):
        for value in json.values() if isinstance(json, dict) else json:
            yield from strings_of(value)


LOOKS = [["status"], ["status", "0"], ["status", "--list"], ["why"], ["why", "0"], ["why", "2"], ["why", "-g", "3"], ["topo"],
         ["topo", "--matrix"], ["doctor"], ["run", "--dry-run", "-g", "1", "true"], ["run", "--no-wait", "-g", "3", "true"],
         ["-v", "run", "-g", "1", "true"], ["claim", "--dry-run"], ["simulate", "/nonexistent/" + HOSTILE],
         ["jobs"], ["jobs", "--tasks"], ["why", "1"], ["logs", "1"], ["wait", "1"], ["logs", HOSTILE], ["cancel", HOSTILE],
         ["hold", HOSTILE], [HOSTILE], ["--" + HOSTILE], ["run", "--" + HOSTILE], ["release", HOSTILE], ["status", HOSTILE],
         ["run", "--model", HOSTILE, "true"], ["submit", "--name", HOSTILE, "--dry-run", "true", HOSTILE],
         ["map", "--dry-run", "echo", ":::", HOSTILE], ["run", "--no-wait", HOSTILE], ["plan", "/nonexistent/" + HOSTILE]]


@pytest.fixture
def evil(tmp_path):
    """A machine file, a queue, a home and jobs whose every text is hostile."""
    folder = tmp_path / HOSTILE.replace("\x00", "")
    folder.mkdir()
    machine = folder / "machine.json"
    machine.write_text(json.dumps(hostile_machine()))
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_RUNTIME_DIR": str(runtime), "THOLE_MACHINE": str(machine),
           "THOLE_QUEUE_DIR": str(folder / "queue"), "LANG": "C.UTF-8", "USER": "tester"}
    return env, folder


def test_no_command_shows_a_control_of_a_machine_file_a_job_or_an_argument(evil):
    env, folder = evil
    for name in (HOSTILE, "plain"):
        on_pipe([THOLE, "submit", "-g", "1", "--name", name, "--tag", HOSTILE, "sh", "-c", "exit 3", HOSTILE], env)
    on_pipe([THOLE, "wait", "1", "2"], env)
    seen = ""
    for words in LOOKS:
        seen += on_pipe([THOLE, *words], env)
    assert "4711" in seen and MARK in seen, "the machine was read, and its words shown, escaped"
    for name in ("topology.xml", "matrix.txt", "machine.json"):
        (folder / name).write_text(f"<topology>{HOSTILE}</topology>" if name.endswith("xml") else HOSTILE)
        on_pipe([THOLE, "capture", "--from", folder / name], env)
        on_pipe([THOLE, "--machine", folder / name, "status"], env)


def test_nor_on_a_terminal_beyond_the_programs_own_colours(evil):
    env, _ = evil
    on_pipe([THOLE, "submit", "-g", "0", "--name", HOSTILE, "true"], env)
    on_pipe([THOLE, "wait", "1"], env)
    for words in LOOKS:
        on_terminal([THOLE, *words], env)


def test_completion_offers_no_name_that_a_terminal_would_obey(evil):
    env, _ = evil
    for name in (HOSTILE, "plain"):
        on_pipe([THOLE, "submit", "-g", "0", "--name", name, "true", HOSTILE], env)
    on_pipe([THOLE, "wait", "1", "2"], env)
    for words in (["logs", ""], ["status", ""], ["run", "--on", ""], ["run", "--model", ""], ["--machine", ""]):
        done = subprocess.run([THOLE, "__complete", *words], capture_output=True, env=env, timeout=60)
        check(done.stdout.decode().replace("\t", " "), f"completion of {words}")
    names = subprocess.run([THOLE, "__complete", "logs", ""], capture_output=True, env=env, timeout=60).stdout.decode()
    assert "\nplain\t" in names and "\n1\t" in names


def test_json_escapes_by_its_own_rule(evil):
    env, _ = evil
    for words in (["status"], ["topo", "--matrix"], ["doctor"], ["why", "0"], ["jobs"]):
        text = subprocess.run([THOLE, *words, "--json"], capture_output=True, env=env, timeout=60).stdout.decode()
        check(text, f"{words} --json")
        assert words != ["status"] or HOSTILE in strings_of(json.loads(text))


# What a stranger's process can be called, and do.
KEEP = """
import ctypes, fcntl, os, sys
ctypes.CDLL(None).prctl(15, b"\\x1b[31mEVIL\\nEVIL", 0, 0, 0)
fds = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in sys.argv[1:]]
for fd in fds: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("up", flush=True)
sys.stdin.read()
"""

SPOIL = """
import os, random, sys
seed = random.Random(7)
evil = b"\\x1b[31mEVIL\\nEVIL\\r\\x07" * 40
for name in ("queue", "who"):
    path = "/run/thole/" + name
    if os.path.exists(path):
        with open(path, "r+b") as file:
            for at in range(0, os.path.getsize(path) - 512, 512):
                file.seek(at + seed.randrange(0, 64)); file.write(evil[:400])
"""


@pytest.mark.parametrize("lab", ["plain", "hidepid runtime"], indirect=True)
def test_nor_of_a_strangers_process_or_record(lab: Lab):
    lab.init()
    held = lab.hold("alice")
    keeper = lab.start_python("mallory", KEEP, f"/run/thole/gpu.{lab.driver.uuid(3)}", "/run/thole/turn.0")
    lab.python("mallory", SPOIL, check=True)
    looks = [["status"], ["why"], ["why", "0"], ["why", "3"], ["why", "-g", "4"], ["doctor"], ["topo"],
             ["-v", "run", "-g", "1", "true"], ["run", "--no-wait", "-g", "4", "true"]]

    for words in looks:
        done = lab.thole("bob", *words)
        check(done.stdout, f"{words} stdout")
        check(done.stderr, f"{words} stderr")
    end(keeper)
    end(held)


@pytest.mark.parametrize("lab", ["plain", "hidepid"], indirect=True)
def test_nor_the_name_of_who_keeps_the_claims_locked(lab: Lab):
    lab.init()
    stuck = lab.start_python("mallory", KEEP, "/run/thole/alloc")
    done = lab.thole("bob", "run", "-g", "1", "true")
    check(done.stderr, "run")
    assert "alloc" in done.stderr
    end(stuck)
