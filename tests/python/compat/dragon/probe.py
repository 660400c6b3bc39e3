"""What a program for Dragon sees and gets, line by line into a file: from dragonhpc 0.14.1 and from the drop-in, on four GPUs.

    dragon -s probe.py FILE [PART...]
"""

import json
import os
import queue
import signal
import sys
import tempfile
import time

from dragon.infrastructure.facts import PMIBackend
from dragon.infrastructure.policy import Policy, PolicyError
from dragon.native import Barrier, Event, Lock, Popen, Queue
from dragon.native.machine import Node, System, cpu_count, current
from dragon.native.pool import Pool
from dragon.native.process import MSG_PIPE, Process, ProcessTemplate
from dragon.native.process import current as current_process
from dragon.native.process_group import DragonProcessGroupError, DragonUserCodeError, ProcessGroup

LONG = 300
lines = []  # not to stdout, where Dragon's services write, too


def say(*what):
    lines.append(" ".join(map(str, what)))


def tried(label, call, *arguments, **named):
    try:
        say(label, "->", call(*arguments, **named))
    except Exception as problem:
        kinds = [kind.__name__ for kind in (ValueError, RuntimeError, TypeError, TimeoutError, NotImplementedError,
                                            AttributeError, PolicyError, DragonUserCodeError, DragonProcessGroupError)
                 if isinstance(problem, kind)]  # fmt: skip
        say(label, "raises", *kinds or [type(problem).__name__])


# ---- What runs in other processes ----


def visible():
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def put_visible(into, label=None):
    into.put((label, visible()))


def bind_seen(into):
    into.put(sorted(os.sched_getaffinity(0)))


def square(number):
    return number * number


def fail(number):
    raise KeyError(number)


def see_gpu(_):
    return visible()


def ends(how):
    if how == "raise":
        raise KeyError(how)
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how != "return":
        sys.exit({"three": 3, "text": "text", "none": None}[how])


def sleep_until(event):
    event.wait()


def meet(barrier, into):
    into.put(barrier.wait() in range(3))


def add(lock, into, path):
    for _ in range(20):
        with lock:
            with open(path) as file:
                number = int(file.read())
            with open(path, "w") as file:
                file.write(str(number + 1))
    into.put(True)


def who(into):
    me = current_process()
    into.put((me.is_alive, type(me.puid).__name__, current().hostname == System().primary_node.hostname))


def received(connection):
    text = ""
    try:
        while True:
            text += connection.recv()
    except EOFError:
        connection.close()
    return text


def run(target, *args, **more):
    process = Process(target, args, **more)
    process.start()
    return process


# ---- The parts ----


def machine():
    system = System()
    node = Node(system.nodes[0])
    say("nodes", [type(one).__name__ for one in system.nodes], system.nnodes, system.restarted)
    say("node", type(node.name).__name__, type(node.h_uid).__name__, node.is_primary)
    say("gpus", node.gpus, node.num_gpus, node.gpu_vendor, node.gpu_env_str)
    say("cpus", node.num_cpus == len(node.cpus) == cpu_count(), type(node.cpus).__name__, node.physical_mem > 2**28)
    say("current", current().h_uid == node.h_uid, Node(node.hostname).h_uid == node.h_uid)
    for policy in system.gpu_policies() + system.hostname_policies():
        say("policy", policy.placement.name, policy.host_name == node.hostname, policy.gpu_affinity, policy.distribution.name)


def policies():
    policy = Policy(gpu_affinity=[3, 1])
    say(policy)
    say(json.dumps(policy.sdesc, sort_keys=True))
    say(Policy.from_sdict(policy.sdesc) == policy, policy == Policy(), Policy() == Policy())
    policy.gpu_affinity.append(2)
    policy.host_id = 7
    say(Policy.merge(Policy(cpu_affinity=[0], gpu_affinity=[0], host_id=4), policy))
    say(Policy.merge(policy, Policy(host_id=-1, gpu_affinity=[])))
    say(Policy.global_policy())
    with Policy(gpu_affinity=[1], cpu_affinity=[0]) as entered:
        say("with", entered)
        with Policy(gpu_affinity=[2]):
            say(Policy.thread_policy())
    say(Policy.thread_policy())
    say(Policy(-3, "here", distribution=2).placement, Policy(distribution=2).distribution)
    tried("placement 9", Policy, 9)
    say(PMIBackend("cray"), PMIBackend.from_str("pmix").value, PMIBackend.CRAY == "cray")
    tried("pmi", PMIBackend.from_str, "none")


def processes():
    into = Queue()
    for wanted in ([3, 1], [1, 3], [0], [2, 0, 3, 1]):
        run(put_visible, into, policy=Policy(gpu_affinity=wanted)).join()
        say("gpu_affinity", wanted, into.get(timeout=LONG)[1])
    run(put_visible, into).join()
    say("no policy ->", into.get(timeout=LONG)[1])
    tried("absent GPU", lambda: (run(put_visible, into, policy=Policy(gpu_affinity=[9])).join(), into.get(timeout=LONG)[1]))
    run(bind_seen, into, policy=Policy(cpu_affinity=[1], gpu_affinity=[0])).join()
    say("cpu_affinity", into.get(timeout=LONG))
    barrier = Barrier(3)
    some = [run(meet, barrier, into, policy=Policy(gpu_affinity=wanted)) for wanted in ([1], [1], [1])]
    say("on one GPU at once", [into.get(timeout=LONG) for _ in some], [one.join() for one in some])
    tried("gpu_affinity no list", lambda: run(put_visible, into, policy=Policy(gpu_affinity=3)).join())
    tried("another host", lambda: run("true", policy=Policy(Policy.Placement.HOST_NAME, "nowhere")).join())
    for how in ("return", "raise", "three", "text", "none", "signal"):
        process = Process(ends, (how,), stderr=Process.DEVNULL)
        process.start()
        say(how, process.join(), process.returncode, process.is_alive)
    held = Event()
    process = run(sleep_until, held)
    say("alive", process.is_alive, process.join(timeout=0.01), process.returncode, process.node, process.name != "")
    say("same", Process(None, ident=process.puid).puid == process.puid)
    tried("twice", process.start)
    held.set()
    say("woken", process.join())
    process = Process("sleep", ["1000"], ident="sleeper")
    process.start()
    say(process.name, process.ident, Process(None, ident="sleeper").puid == process.puid)
    process.terminate()
    say("terminated", process.join())
    run(who, into).join()
    say("me", into.get(timeout=LONG))
    say("not started", Process("true").is_alive)
    tried("no program", Process, "no-such-program")
    tried("template start", ProcessTemplate("true").start)
    tried("subclass", type("Mine", (Process,), {}), "true")


def pipes():
    process = Process("sh", ["-c", "echo out; echo err >&2"], stdout=Process.PIPE, stderr=Process.PIPE)
    process.start()
    say(repr(received(process.stdout_conn)), repr(received(process.stderr_conn)), process.stdin_conn, process.join())
    process = Process("sh", ["-c", "echo out; echo err >&2"], stdout=MSG_PIPE, stderr=Process.STDOUT)
    process.start()
    say(repr(received(process.stdout_conn)), process.join())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out")
        for word in ("one", "two"):
            run("echo", word, stdout=path).join()
        with open(path) as file:
            say(repr(file.read()))
        tried("empty path", ProcessTemplate, "true", stdout="")
        process = Process("pwd", cwd=folder, stdout=Process.PIPE)
        process.start()
        say(received(process.stdout_conn).strip() == os.path.realpath(folder), process.join())
    process = Process("sh", ["-c", "echo $SAID $HOME"], env={"SAID": "more"}, stdout=Process.PIPE)
    process.start()
    say(received(process.stdout_conn).strip() == f"more {os.environ['HOME']}", process.join())
    popen = Popen(executable="/bin/sh", args=["-c", "echo popen"], stdout=Popen.PIPE)
    say(repr(received(popen.stdout)), popen.stderr, popen.wait(), popen.returncode)


def templates():
    template = ProcessTemplate(square, args=(3,), kwargs={"a": 1}, cwd="/", policy=Policy(gpu_affinity=[2]))
    function, args, kwargs = template.get_original_python_parameters()
    say(function.__name__, args, kwargs, template.is_python, template.cwd)
    say(sorted(template.sdesc), template.sdesc["is_python"], template.sdesc["target"] == sys.executable)
    again = ProcessTemplate.from_sdict(template.sdesc)
    say(again.get_original_python_parameters()[1:], again.policy.gpu_affinity, again.cwd)
    program = ProcessTemplate("sh", args=["-c", "exit 3"])
    say(os.path.basename(program.target), program.args, program.is_python)
    say("from_template", (lambda one: (one.start(), one.join()))(Process.from_template(program)))


def made(*templates, **more):
    group = ProcessGroup(**more)
    for nproc, template in templates:
        group.add_process(nproc=nproc, template=template)
    group.init()
    return group


def statuses(group):
    return sorted(status for _, status in group.exit_status)


def groups():
    into = Queue()
    group = made(
        (2, ProcessTemplate(put_visible, args=(into, "group"))),
        (1, ProcessTemplate(put_visible, args=(into, "own"), policy=Policy(gpu_affinity=[0]))),
        policy=Policy(gpu_affinity=[3, 1]),
        name="named",
    )
    say(group._state.name, group.puids, group.exit_status)
    group.start()
    group.join()
    say(sorted(into.get(timeout=LONG) for _ in range(3)), statuses(group), group._state.name, group.puids)
    say(group.inactive_puids == group.exit_status)
    group.close()
    sleeper = ProcessTemplate("sleep", args=["1000"])
    for ending, arguments in (("terminate", ()), ("kill", ()), ("stop", (30,)), ("send_signal", (signal.SIGTERM,))):
        group = made((2, sleeper), ignore_error_on_exit=True)
        group.start()
        say(group._state.name, len(group.puids), [type(puid).__name__ for puid in group.puids])
        tried("join(0)", group.join, timeout=0.01)
        getattr(group, ending)(*arguments)
        if ending != "stop":
            group.join()
        say(ending, statuses(group), group._state.name)
        group.close()
    group = made((2, sleeper), walltime=1.0, ignore_error_on_exit=True)
    group.start()
    group.join()
    say("walltime", [status < 0 for status in statuses(group)], group._state.name)
    group.close()
    group = made((1, ProcessTemplate("sh", args=["-c", "exit 3"])))
    group.start()
    tried("user code", lambda: (group.join(), time.sleep(1), group.puids))
    tried("after", group.close)
    group = made((1, ProcessTemplate("true")), restart=True, ignore_error_on_exit=True)
    group.start()
    while len(group.exit_status) < 3:
        time.sleep(0.05)
    group.stop_restart()
    group.join()
    say("restarted", set(statuses(group)), len({puid for puid, _ in group.exit_status}) >= 3)
    group.close()
    group = made((1, sleeper))
    tried("kill before start", group.kill)
    group.close()
    tried("start after close", group.start)
    tried("pmi", ProcessGroup, pmi="none")


def pools():
    everything = System().gpu_policies()
    pool = Pool(policy=everything, processes_per_policy=2)
    seen = pool.map_async(see_gpu, range(80), 1).get()  # which of the workers take how much is chance
    say("all", len(seen), set(seen) <= set("0123"))
    say(pool.map_async(square, range(5)).get(), pool.map_async(square, []).get())
    result = pool.apply_async(square, (7,))
    say(result.get(LONG), result.ready(), result.successful())
    failed = pool.map_async(fail, [1], error_callback=lambda problem: say("told", type(problem).__name__))
    try:
        failed.get()
    except KeyError as problem:
        say("KeyError", problem, type(problem.__cause__).__name__, "in fail" in str(problem.__cause__))
    say(failed.successful())
    tried("join while open", pool.join)
    pool.close()
    tried("close again", pool.close)
    tried("apply when closed", pool.apply_async, square, (1,))
    pool.join()
    pool = Pool(policy=Policy(gpu_affinity=[3, 1]), processes_per_policy=2)
    say("order", set(pool.map_async(see_gpu, range(20), 1).get()))
    pool.close()
    pool.join()
    pool = Pool(3, policy=Policy(gpu_affinity=[2]))
    say("one policy", set(pool.map_async(see_gpu, range(20), 1).get()))
    pool.terminate(patience=5)
    pool.join()
    tried("number twice", Pool, 2, processes_per_policy=2)
    tried("list and number", Pool, 2, policy=everything)
    tried("zero", Pool, 0)


def shared():
    into = Queue(2)
    say(into.size(), into.empty(), into.full(), into.poll(0))
    into.put(1)
    into.put({"two": [2]})
    say(into.size(), into.full())
    tried("full", into.put_nowait, 3)
    say(into.get(), into.get(timeout=1))
    try:
        into.get(timeout=0.01)
    except queue.Empty:
        say("Empty")
    joinable = Queue(joinable=True)
    joinable.put(1)
    joinable.get()
    joinable.task_done()
    joinable.join()
    into = Queue()
    barrier = Barrier(parties=3)
    some = [run(meet, barrier, into) for _ in range(3)]
    say("met", [into.get(timeout=LONG) for _ in some], [one.join() for one in some], barrier.parties)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "number")
        with open(path, "w") as file:
            file.write("0")
        lock = Lock()
        some = [run(add, lock, into, path) for _ in range(3)]
        say([into.get(timeout=LONG) for _ in some], [one.join() for one in some])
        with open(path) as file:
            say("locked", file.read())
    say(lock.acquire(), lock.is_mine(), lock.count(), lock.acquire(timeout=0.01), lock.is_recursive())
    lock.release()
    tried("release", lock.release)
    event = Event()
    say(event.is_set(), event.wait(timeout=0.01))
    event.set()
    say(event.is_set(), event.wait())
    event.clear()
    say(event.is_set())


PARTS = (machine, policies, processes, pipes, templates, groups, pools, shared)

if __name__ == "__main__":
    for part in PARTS:
        if len(sys.argv) < 3 or part.__name__ in sys.argv[2:]:
            say("----", part.__name__)
            part()
    with open(sys.argv[1], "w") as file:
        file.write("\n".join(lines) + "\n")
