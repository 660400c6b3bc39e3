# ctest: timeout 900
"""The program and the package keep one book: whoever of a user's processes claims, by whatever means and environment, all
others see it.

Here claims lie where they lie for a user who has set nothing: in his own directory of the machine. The machine is this test's
own.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOLD = "echo up; read -r line"
SHARED = """
    import os, subprocess, sys
    import tholepin
    def hold(n):
        claim = tholepin.claim(n, wait=0)
        print("up", *claim.indices, flush=True)
        sys.stdin.readline()
"""
# Each takes all 8 GPUs, prints a line, and holds them until its standard input ends.
HOLDERS = {
    "run": ["thole", "run", "-q", "-g", "8", "--", "sh", "-c", HOLD],
    "claim": ["sh", "-c", 'id=$(thole claim -q -g 8) || exit; ' + HOLD + '; thole release -q "$id"'],
    "shell": ["sh", "-c", 'eval "$(thole claim -q -g 8 --shell)"; ' + HOLD],
    "map": ["sh", "-c", 'exec 3<>"$STARTED"; '
                        '{ thole map -q -g 8 -- sh -c "echo >\\"$STARTED\\"; cat \\"$FIFO\\"" ::: 1 || echo failed >&3; } & '
                        'read -r line <&3; [ -z "$line" ] || exit; ' + HOLD + '; : >"$FIFO"; wait $!'],
    "submit": ["sh", "-c", 'job=$(thole submit -q -g 8 -- sh -c "echo >\\"$STARTED\\"; cat \\"$FIFO\\"") || exit; '
                           'read -r line <"$STARTED"; ' + HOLD + '; : >"$FIFO"; thole wait -q "$job"'],
    "python": [sys.executable, "-c", textwrap.dedent(SHARED) + "hold(8)"],
    "pool": [sys.executable, "-c", textwrap.dedent(SHARED) + textwrap.dedent("""
        if __name__ == "__main__":
            with tholepin.Pool(gpus=8, wait=0):
                print("up", flush=True)
                sys.stdin.readline()
    """)],
}


class Session:
    """A user's session with an XDG_RUNTIME_DIR of its own, or with none."""

    def __init__(self, environment, runtime):
        self.environment = {**environment, **({"XDG_RUNTIME_DIR": str(runtime)} if runtime else {})}

    def start(self, words, **more):
        return subprocess.Popen(
            words,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def finish(self, words):
        return subprocess.run(
            words, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )

    def claims(self):
        status = self.finish(["thole", "status", "--json"])
        assert status.returncode == 0, status.stderr
        return [claim for claim in json.loads(status.stdout)["claims"] if claim["held"]]

    def program_gets_one(self):
        done = self.finish(["thole", "run", "-q", "--no-wait", "-g", "1", "--", "true"])
        assert done.returncode in (0, 75), done.stderr
        return done.returncode == 0

    def python_gets_one(self):
        code = "import tholepin\ntry: tholepin.claim(1, wait=0)\nexcept tholepin.NoneFree: raise SystemExit(75)"
        done = self.finish([sys.executable, "-c", code])
        assert done.returncode in (0, 75), done.stderr
        return done.returncode == 0


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """Of a user with nothing set, for a machine that nobody else has: not in pytest's folder, whose path others may not
    enter."""
    for name in ("THOLE_STATE_DIR", "THOLE_PERSONAL_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    machine = tmp_path / "machine.json"
    shutil.copy(ROOT / "machines/dgx-a100.json", machine)
    monkeypatch.setenv("THOLE_MACHINE", str(machine))
    monkeypatch.setenv("PATH", f"{pathlib.Path(os.environ['THOLE']).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FIFO", str(tmp_path / "fifo"))
    monkeypatch.setenv("STARTED", str(tmp_path / "started"))
    os.mkfifo(tmp_path / "fifo")
    os.mkfifo(tmp_path / "started")
    yield dict(os.environ)
    for left in own_directories("machine-machine.json-"):
        shutil.rmtree(left)


def own_directories(start):
    me = os.geteuid()
    return [path for root in pathlib.Path("/tmp").glob(f"thole-{me}*") if root.is_dir() and root.stat().st_uid == me
            for path in root.glob(f"{start}*")]


@pytest.fixture
def sessions(environment, tmp_path):
    """Of one user: with a runtime directory, without (cron, su), with another's (su without -l), with one that is gone."""
    own, foreign = tmp_path / "run", tmp_path / "foreign"
    own.mkdir(mode=0o700)
    foreign.mkdir(mode=0o755)
    return {"own": Session(environment, own), "none": Session(environment, None), "foreign": Session(environment, foreign),
            "gone": Session(environment, tmp_path / "gone")}


@contextlib.contextmanager
def holding(session, name):
    process = session.start(HOLDERS[name])
    line = process.stdout.readline()
    assert line.startswith("up"), line + process.communicate()[1]
    try:
        yield
    finally:
        process.communicate("\n", timeout=300)
    assert process.returncode == 0


@pytest.mark.parametrize("there, here", [("own", "none"), ("none", "own"), ("own", "foreign"), ("gone", "own")])
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_one_process_claims_no_other_of_the_user_gets(sessions, holder, there, here):
    with holding(sessions[there], holder):
        assert len(sessions[here].claims()) == 8
        assert not sessions[here].program_gets_one()
        assert not sessions[here].python_gets_one()
    # The keeper of a shell's claim is told of the shell's end by the kernel, as we are.
    end = time.monotonic() + 60
    while sessions[here].claims() != []:
        assert time.monotonic() < end, "what has ended holds nothing"


INSIDE = textwrap.dedent(SHARED) + textwrap.dedent("""
    import json
    def by(how, runtime):
        environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        if runtime: environment["XDG_RUNTIME_DIR"] = runtime
        words = (["thole", "run", "-q", "--no-wait", "-g", "1", "--", "sh", "-c", 'echo up "$THOLE_GPUS"; read -r line']
                 if how == "run" else
                 [sys.executable, "-c", "import sys, os, tholepin\\n"
                  "try: claim = tholepin.claim(1, wait=0)\\n"
                  "except tholepin.NoneFree: raise SystemExit(75)\\n"
                  "print('up', os.environ['THOLE_GPUS'], flush=True); sys.stdin.readline()"])
        process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        if line: return process, json.loads(line[3:])[0]["uuid"]
        process.communicate()
        assert process.returncode == 75, process.returncode
        return process, None
    kinds, runtimes = sys.argv[1].split(","), sys.argv[2].split(",")
    processes, got = zip(*(by(kinds[i % 2], runtimes[i % 2]) for i in range(4)))
    for process in processes: process.communicate()
    print(json.dumps(got))
""")


@pytest.mark.parametrize("outer", ["run", "python"])
@pytest.mark.parametrize("kinds", ["python,run", "run,python", "python,python", "run,run"])
@pytest.mark.parametrize("order", [("own", "none"), ("none", "own")])
def test_inside_a_claim_of_two_there_are_two(sessions, environment, outer, kinds, order):
    runtimes = ",".join(sessions[name].environment.get("XDG_RUNTIME_DIR", "") for name in order)
    inner = [sys.executable, "-c", INSIDE, kinds, runtimes]
    if outer == "run":
        words = ["thole", "run", "-q", "-g", "2", "--", *inner]
    else:
        words = [
            sys.executable,
            "-c",
            "import subprocess, sys, tholepin\nwith tholepin.claim(2): subprocess.run(sys.argv[1:], check=True)",
            *inner,
        ]
    done = sessions["own"].finish(words)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second, third, fourth = json.loads(done.stdout.splitlines()[-1])
    assert first and second and first != second, "two different GPUs"
    assert third is None and fourth is None, "and no third"


def test_a_claim_is_released_from_any_session(sessions):
    claim = sessions["own"].finish(["thole", "claim", "-q", "-g", "2", "--time", "1h"]).stdout.strip()
    assert len(sessions["none"].claims()) == 2
    done = sessions["none"].finish(["thole", "release", "-q", claim])
    assert done.returncode == 0, done.stderr
    assert sessions["gone"].claims() == []


def test_another_installation_means_the_same_machine_by_the_same_name(environment, tmp_path):
    """A wheel's `dgx-a100` and a build folder's are one machine; a file of the user's is another."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "machines").mkdir(parents=True)
    program = shutil.which("thole")
    shutil.copy(os.path.realpath(program), elsewhere / "thole")
    name = f"t{os.getpid()}-" + next(tempfile._get_candidate_names())
    for folder in (elsewhere / "machines", tmp_path / "second/machines"):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "machines/dgx-a100.json", folder / f"{name}.json")
    shutil.copy(elsewhere / "thole", tmp_path / "second/thole")
    environment = {**environment, "THOLE_MACHINE": name}
    try:
        held = subprocess.Popen([elsewhere / "thole", "run", "-q", "-g", "8", "--", "sh", "-c", HOLD], env=environment,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert held.stdout.readline() == "up\n"
        other = [tmp_path / "second/thole", "run", "-q", "--no-wait", "-g", "1", "--", "true"]
        assert subprocess.run(other, env=environment).returncode == 75
        by_path = {**environment, "THOLE_MACHINE": str(tmp_path / f"second/machines/{name}.json")}
        assert subprocess.run(other, env=by_path).returncode == 75, "the shipped file by its path"
        assert subprocess.run(other, env={**environment, "THOLE_MACHINE": str(tmp_path / "machine.json")}).returncode == 0
        held.communicate("\n", timeout=300)
    finally:
        if held.poll() is None:
            held.send_signal(signal.SIGTERM)
            held.wait()
        for left in own_directories(f"machine-{name}"):
            shutil.rmtree(left)
