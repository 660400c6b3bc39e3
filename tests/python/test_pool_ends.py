# ctest: timeout 900
"""However a program with a pool ends, its workers end too and its claims are free; and programs need not be written for
pools."""
import concurrent.futures
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import time

import pytest
from claim_tools import eventually

import few_descriptors
import pool_work as work
import tholepin
from tholepin import _native

LONG = 200  # seconds, that no test takes unless something is wrong
HERE = pathlib.Path(__file__).parent
TORTURE_SECONDS = float(os.environ.get("THOLE_TORTURE_SECONDS", "3"))

# Tells the pids of its workers, and of a child of one of them, and then works for ever.
PROGRAM = """
import os, subprocess, sys, time
import pool_work, tholepin
def with_child():
    return os.getpid(), subprocess.Popen(["sleep", "1000"]).pid
pool = tholepin.Pool(gpus=3, processes_per_policy=2)
pool.wait_until_ready()
parent, child = pool.apply(with_child)
print(*pool._crew.pids(), child, flush=True)
"""


def script(folder, text, without_cloudpickle=False):
    path = folder / "program.py"
    path.write_text(("import sys; sys.modules['cloudpickle'] = None\n" if without_cloudpickle else "") + text)
    return path


def started(command, **options):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def said_by(command):
    """What a program prints; it must end well."""
    program = started(command)
    said, _ = program.communicate(timeout=LONG)
    assert program.returncode == 0
    return said.split()


def watched(pids):
    """A pidfd of each: pids are given out again."""
    return [os.pidfd_open(int(pid)) for pid in pids]


def all_end(watches):
    for watch in watches:
        poller = select.poll()
        poller.register(watch, select.POLLIN)
        ended = bool(poller.poll(LONG * 1000))
        os.close(watch)
        assert ended


def all_gpus_are_free():
    tholepin.claim(8, wait=LONG).release()


WAYS = {
    "returns": ("", None),
    "is killed": ("time.sleep(1000)", signal.SIGKILL),
    "is terminated": ("time.sleep(1000)", signal.SIGTERM),
    "is interrupted while it waits for a result": ("pool.map(pool_work.sleep, [1000] * 20)", signal.SIGINT),
    "is interrupted in a with block": ("with pool: pool.apply(pool_work.sleep, (1000,))", signal.SIGINT),
    "raises": ("raise SystemExit(3)", None),
    "vanishes": ("os._exit(0)", None),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_process_and_no_claim_outlives_a_program_that(way, tmp_path):
    last, number = WAYS[way]
    program = started(
        [sys.executable, "-c", PROGRAM + "sys.stdin.readline()\n" + last], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    pids = program.stdout.readline().split()
    assert len(pids) == 7
    watches = watched(pids)
    with pytest.raises(tholepin.NoneFree):
        tholepin.claim(8, wait=0)
    program.stdin.write("go on\n")
    program.stdin.close()
    if number:
        program.send_signal(number)
    program.wait(LONG)
    program.stdout.close()
    all_end(watches)
    all_gpus_are_free()


def _environment(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("without_cloudpickle", [False, True])
@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":'])
def test_scripts_need_no_main_guard(guard, without_cloudpickle, tmp_path):
    body = """
print(pool_of(2).map(double, [1, 2, 3]))
print(pool_of(1).apply(Point(4).scaled, (2,)).x)
"""
    indented = "\n".join("    " + line for line in body.splitlines() if line) if guard else body
    text = f"""
import tholepin
FACTOR = 2
class Point:
    def __init__(self, x): self.x = x
    def scaled(self, by): return Point(self.x * by)
def double(x): return helper(x)
def helper(x): return x * FACTOR
def pool_of(n): return tholepin.Pool(n)
{guard}
{indented}
"""
    assert said_by([sys.executable, script(tmp_path, text, without_cloudpickle)]) == ["[2,", "4,", "6]", "8"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_such_a_script_may_have_children_by_every_method(method, tmp_path):
    text = f"""
import multiprocessing, tholepin
def double(x): return 2 * x
def doubled(x):
    with multiprocessing.get_context("{method}").Pool(1) as children:
        return children.map(double, [x])
print(tholepin.Pool(2).map(doubled, [1, 2]))
"""
    assert said_by([sys.executable, script(tmp_path, text, without_cloudpickle=True)]) == ["[[2],", "[4]]"]


@pytest.mark.parametrize("without_cloudpickle", [False, True])
def test_workers_of_such_a_script_may_have_pools(without_cloudpickle, tmp_path):
    text = """
import tholepin
class Point:
    def __init__(self, x): self.x = x
def double(x): return Point(2 * x)
def doubled(x):
    with tholepin.Pool(1) as pool:
        return pool.map(double, [x])
print([points[0].x for points in tholepin.Pool(2).map(doubled, [1, 2])])
"""
    assert said_by([sys.executable, script(tmp_path, text, without_cloudpickle)]) == ["[2,", "4]"]


@pytest.mark.parametrize("without_cloudpickle", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_may_have_pools(method, without_cloudpickle, tmp_path):
    text = f"""
import multiprocessing, tholepin
class Point:
    def __init__(self, x): self.x = x
def double(x): return Point(2 * x)
def doubled(x):
    with tholepin.Pool(1) as pool:
        return pool.map(double, [x]), pool.apply(lambda: double(x).x), tholepin.on_gpu(1)(double)(x).x
if __name__ == "__main__":
    [[one], another, third] = multiprocessing.get_context("{method}").Pool(1).apply(doubled, [2])
    print([one.x, another, third])
"""
    assert said_by([sys.executable, script(tmp_path, text, without_cloudpickle)]) == ["[4,", "4,", "4]"]


def test_what_such_a_script_claims_or_submits_no_worker_does_again(tmp_path):
    text = """
import tholepin
def double(x): return 2 * x
job = tholepin.submit(["true"], gpus=0, hold=True)
with tholepin.claim(8):
    with tholepin.Pool(2) as pool:
        print(*pool.map(double, [1, 2]))
print(job, len(tholepin.jobs()))
"""
    assert said_by([sys.executable, script(tmp_path, text, without_cloudpickle=True)]) == ["2", "4", "1", "1"]


def test_an_unguarded_pool_in_a_process_of_multiprocessing_names_the_guard(tmp_path):
    text = """
import multiprocessing, tholepin
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=print)
    child.start(); child.join(); print(child.exitcode)
else:
    try: tholepin.Pool(2)
    except tholepin.Error as problem: print(problem.hint)
"""
    said = said_by([sys.executable, script(tmp_path, text, without_cloudpickle=True)])
    assert " ".join(said) == 'put what starts processes under if __name__ == "__main__": 0'


@pytest.mark.parametrize("without_cloudpickle", [False, True])
def test_functions_typed_at_a_prompt_or_in_a_notebook_work(without_cloudpickle, tmp_path):
    text = """
import math, tholepin
def fact(n): return 1 if n < 2 else n * fact(n - 1)
class Circle:
    def __init__(self, r): self.r = r
    def area(self): return math.pi * self.r ** 2
def area(circle): return round(circle.area())
by = 3
with tholepin.Pool(2) as pool:
    print(pool.map(fact, [3, 4]), pool.apply(area, (Circle(2),)), pool.map(lambda x: x * by, [1]))
"""
    before = "import sys; sys.modules['cloudpickle'] = None\n" if without_cloudpickle else ""
    assert said_by([sys.executable, "-c", before + text]) == ["[6,", "24]", "13", "[3]"]


def test_an_executor_finishes_what_was_submitted_before_the_program_ends(tmp_path):
    text = "import tholepin\ntholepin.Executor(1).submit(open, 'made', 'w')\n"
    said_by(["env", "-C", str(tmp_path), sys.executable, "-c", text])
    assert (tmp_path / "made").exists()


def test_a_worker_that_comes_later_is_shown_its_gpu_by_the_number_it_has_then(tmp_path):
    """A GPU that leaves the driver's list gives its number to the next one."""
    text = """
import json, os, pathlib
import pool_work, tholepin
file = pathlib.Path(os.environ["THOLE_MACHINE"])
def shown(): return os.environ["CUDA_VISIBLE_DEVICES"]
if __name__ == "__main__":
    with tholepin.Pool(policy=[tholepin.Policy(gpu_affinity=[1])], retries=0) as pool:
        print(pool.apply(shown))
        machine = json.loads(file.read_text())
        machine["gpus"].pop(0)
        file.with_suffix(".new").write_text(json.dumps(machine))
        os.replace(file.with_suffix(".new"), file)
        try:
            pool.apply(os._exit, (1,))
        except tholepin.WorkerDied:
            print(pool.apply(shown))
"""
    machine = tmp_path / "machine.json"
    captured = subprocess.run(
        [_native.program(), "--machine", "3xA100", "capture"], capture_output=True, text=True, check=True).stdout
    machine.write_text(captured)
    said = said_by(["env", f"THOLE_MACHINE={machine}", sys.executable, str(script(tmp_path, text))])
    assert said == ["1", "0"]


def test_workers_die_at_random_and_every_result_comes():
    """Short here; THOLE_TORTURE_SECONDS=3600 for long."""
    ends = time.monotonic() + TORTURE_SECONDS
    rounds = 0
    with tholepin.Pool(gpus=2, processes_per_policy=2, retries=1000) as pool:
        while time.monotonic() < ends or rounds < 3:
            result = pool.map_async(work.square, range(500), chunksize=random.randint(1, 20))
            for _ in range(random.randint(1, 5)):
                try:
                    os.kill(random.choice(pool._crew.pids()), random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))
                except (ProcessLookupError, IndexError):
                    pass
                time.sleep(random.random() / 50)  # somewhere into the work; no condition is waited for
            assert result.get(LONG) == [x * x for x in range(500)]
            rounds += 1
    all_gpus_are_free()


def test_programs_are_killed_at_random_and_nothing_is_left(tmp_path):
    """Short here; THOLE_TORTURE_SECONDS=3600 for long."""
    text = """
import random, time, tholepin
import pool_work
while True:
    with tholepin.Pool(gpus=2, processes_per_policy=2) as pool:
        pool.map_async(pool_work.square, range(300), 1).get(60)
    with tholepin.ProcessGroup(policy=tholepin.Policy(gpu_affinity=[7])) as group:
        group.add_process(2, tholepin.ProcessTemplate("sh", ["-c", "sleep 1000 & wait"]))
        group.init()
        group.start()
        print(*group.puids, flush=True)
"""
    path = script(tmp_path, text)
    ends = time.monotonic() + TORTURE_SECONDS
    rounds = 0
    while time.monotonic() < ends or rounds < 3:
        program = started([sys.executable, path], stderr=subprocess.DEVNULL)
        program.stdout.readline()
        time.sleep(random.random() / 4)  # somewhere into its loop; no condition is waited for
        program.kill()
        program.wait()
        program.stdout.close()
        all_gpus_are_free()
        rounds += 1
    deadline = time.monotonic() + LONG
    while (left := _of_this_test()) and time.monotonic() < deadline:
        for pid in left:
            try:
                all_end(watched([pid]))
            except ProcessLookupError:  # it has ended since
                pass
            _reap(pid)
    assert not left


def _reap(pid):
    try:
        os.waitpid(pid, os.WNOHANG)  # an orphan is our child: see conftest
    except ChildProcessError:
        pass


def _of_this_test():
    state = os.environ["THOLE_STATE_DIR"].encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != os.getpid() and state in _environment(pid):
            found.append(int(pid))
    return found


def test_a_bug_in_every_turn_ends_the_pool_and_its_waiters(monkeypatch):
    with tholepin.Pool(2) as pool:
        assert pool.wait_until_ready(LONG)
        crew, turns = pool._crew, []
        turn = crew._turn
        monkeypatch.setattr(crew, "_bury", lambda worker: 1 / 0)
        monkeypatch.setattr(crew, "_turn", lambda: (turns.append(1), turn()))
        pids, result = crew.pids(), pool.apply_async(signal.pause)
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(ZeroDivisionError):
            result.get(LONG)
        pool.close()
        pool.join(LONG)
        assert len(turns) < 100
        assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_too_few_descriptors_are_named_and_nothing_else_is_said(tmp_path):
    """Whatever is left when the thread's pipe is made."""
    script = tmp_path / "few.py"
    script.write_text("""
import gc, os, resource, select
from tholepin import Error
from tholepin._bell import Bell, new_epoll
last = os.dup(0)
os.close(last)
for room, what in ((0, new_epoll), (1, lambda: Bell(new_epoll())), (2, lambda: Bell(new_epoll()))):
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + room, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        what()
    except Error as error:
        print(error.code, error.hint)
    gc.collect()
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["69 raise the descriptor limit: ulimit -n"] * 3


def test_a_worker_that_cannot_be_started_is_named_with_its_command_and_the_fix(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/gone/python")
    with tholepin.Pool(gpus=2) as pool:
        with pytest.raises(OSError) as caught:
            pool.wait_until_ready(LONG)
        with pytest.raises(tholepin.WorkerNotStarted):
            pool.apply(os.getpid)
    assert isinstance(caught.value, tholepin.WorkerNotStarted)
    assert str(caught.value).splitlines() == ["cannot start worker 1 of 2: /gone/python: No such file or directory",
                                              "  sys.executable must be the path of a Python"]
    all_gpus_are_free()


def test_however_few_descriptors_there_are_no_pool_fails_without_the_fix(tmp_path):
    path = script(tmp_path, """
import few_descriptors, tholepin
def tried():
    with tholepin.Pool(3, quiet=True) as pool:
        pool.wait_until_ready()
        pool.close()
        pool.join()
errors = few_descriptors.errors(tried)
for error in errors:
    assert "ulimit -n" in error.hint, repr(error)
print(*sorted({error.message for error in errors}), sep="\\n")
""")
    said = few_descriptors.run(path)
    assert {f"cannot start worker {number} of 3" for number in (1, 2, 3)} <= {line.partition(":")[0] for line in said}, said


def saves_at_sigterm(folder):
    """Ends in its own time: when the file "go on" is there."""
    def save(number, frame):
        eventually((folder / "go on").exists)
        (folder / "saved").touch()
        os._exit(0)

    signal.signal(signal.SIGTERM, save)
    (folder / "saves").touch()
    time.sleep(LONG)


def answers_at_sigterm(folder):
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    (folder / "answers").write_text(str(os.getpid()))
    eventually(lambda: asked)
    return "a part"


def test_a_task_that_answers_at_sigterm_leaves_the_others_their_patience(tmp_path):
    pool = tholepin.Pool(2)
    for task in (saves_at_sigterm, answers_at_sigterm):
        pool.apply_async(task, (tmp_path,))
    eventually(lambda: (tmp_path / "saves").exists() and (tmp_path / "answers").exists() and (tmp_path / "answers").read_text())
    answers = watched([int((tmp_path / "answers").read_text())])
    pool.terminate(patience=LONG)
    all_end(answers)  # what is left to do in its worker is not begun
    (tmp_path / "go on").touch()
    pool.join()
    assert (tmp_path / "saved").exists()


def forks_and_returns_twice(value):
    os.fork()
    return value


def test_a_second_answer_of_a_task_that_has_forked_is_dropped():
    with tholepin.Pool(1) as pool:
        assert pool.apply(forks_and_returns_twice, (1,)) == 1
        assert pool.map(abs, [-1, -2], chunksize=1) == [1, 2]


def test_arguments_that_take_a_descriptor_wait_for_one(tmp_path):
    path = script(tmp_path, """
import resource, tholepin
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
with tholepin.Pool(8, quiet=True) as pool:
    pool.wait_until_ready()
    large = [bytes(40000)] * 300
    print(sum(pool.map(len, large, chunksize=1)))
    print(sum(one.get() for one in [pool.apply_async(len, (each,)) for each in large]))
""")
    assert said_by([sys.executable, path]) == ["12000000"] * 2


def test_a_function_sent_by_value_may_call_one_that_runs_on_gpus(tmp_path):
    text = """import sys; sys.modules['cloudpickle'] = None
import tholepin
@tholepin.on_gpu(1)
def once(x): return x + 1
def twice(x): return once(once(x))
with tholepin.Pool(gpus=1) as pool: print(pool.map(twice, [1]))
"""
    assert said_by([sys.executable, "-c", text]) == ["[3]"]


def test_workers_leave_nothing_that_python_warns_of():
    program = """
import tholepin
with tholepin.Pool(gpus=1, maxtasksperchild=1) as pool:
    pool.map(abs, [1, 2], chunksize=1)
with tholepin.Executor(gpus=1) as executor:
    executor.submit(abs, 1).result()
with tholepin.Executor(gpus=1, initializer=open, initargs=['/nowhere']) as executor:
    assert executor.submit(abs, 1).exception()
tholepin.on_gpu(1)(abs)(1)
process = tholepin.Process(abs, [1])
process.start()
process.join()
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", program], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("make", [tholepin.Pool, tholepin.Executor])
def test_what_is_broken_keeps_no_descriptors(make):
    """Also while somebody keeps the exception, which has its pool in its traceback."""
    kept, open_before = [], None
    for _ in range(3):
        with make(gpus=1, initializer=open, initargs=["/nowhere"]) as made:
            with pytest.raises((tholepin.Error, concurrent.futures.BrokenExecutor)) as caught:
                list(made.map(abs, [1]))
            kept.append((made, caught.value))
        # What the library keeps may get another number; what ended by itself is closed by a thread that may be late.
        if open_before is None:
            open_before = len(os.listdir("/proc/self/fd"))
        eventually(lambda: len(os.listdir("/proc/self/fd")) <= open_before)
