"""Queue, Event, Barrier, Lock and connections of pipes, given to other processes; what is left when one of them is killed."""

import os

import pytest
from compat_tools import run

pytestmark = pytest.mark.usefixtures("all_claims_end")

BEGIN = """
import os, pickle, queue, signal, sys, threading
from dragon.native import Barrier, Event, Lock, Pool, Process, Queue
from dragon.native.barrier import BrokenBarrierError
from dragon.native.queue import QueueError
def started(function, *args, **more):
    process = Process(function, args, **more)
    process.start()
    return process
def told(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except BaseException as problem:
        return type(problem).__name__, str(problem).splitlines()[:1]
"""


def said_by(text):
    return run(BEGIN + text)


def test_a_queue_goes_through_a_queue_and_to_grandchildren():
    assert said_by("""
def child(outer):
    inner = outer.get()
    outer.put([inner.get() for _ in range(2)])
    started(grandchild, outer).join()
def grandchild(outer):
    outer.put((os.getpid() > 1, outer.size()))
outer, inner = Queue(), Queue()
for item in ("one", {"two": 2}):
    inner.put(item)
outer.put(inner)
process = started(child, outer)
print(outer.get() if process.join() == 0 else "failed", outer.get())
""") == "['one', {'two': 2}] (True, 1)\n"


def test_what_is_defined_in_the_script_goes_through_a_queue():
    """By value, or by name where cloudpickle is not installed."""
    assert said_by("""
class Mine:
    value = 7
def child(items, results):
    results.put(items.get()().value)
items, results = Queue(), Queue()
items.put(Mine)
print(started(child, items, results).join(), results.get())
""") == "0 7\n"


def test_a_pools_workers_use_them():
    assert said_by("""
def count(lock, results, event):
    event.wait()
    with lock:
        results.put(results.size())
lock, results, event = Lock(), Queue(), Event()
pool = Pool(2)
done = [pool.apply_async(count, (lock, results, event)) for _ in range(6)]
event.set()
[one.get() for one in done]
pool.close(); pool.join()
print([results.get() for _ in range(6)])
""") == "[0, 1, 2, 3, 4, 5]\n"


def test_nothing_is_lost_with_who_was_to_get_it():
    """Killed while it waits: what comes is the next one's, in its place."""
    assert said_by("""
def child(ready, items):
    ready.set()
    items.get()
def last(items, results):
    results.put([items.get() for _ in range(3)])
items, results, ready = Queue(), Queue(), Event()
process = started(child, ready, items)
ready.wait()
process.kill()
process.join()
for item in range(3):
    items.put(item)
print(started(last, items, results).join(), results.get())
""") == "0 [0, 1, 2]\n"


def test_who_waits_is_woken_by_others():
    assert said_by("""
def child(barrier, event, results):
    results.put((barrier.wait() in range(3), barrier.parties, event.wait(), event.wait(timeout=0)))
barrier, event, results = Barrier(3), Event(), Queue()
some = [started(child, barrier, event, results) for _ in range(2)]
print(barrier.wait() in range(3))
event.set()
print([results.get() for _ in some], [one.join() for one in some], barrier.n_waiting, barrier.broken)
""") == "True\n[(True, 3, True, True), (True, 3, True, True)] [0, 0] 0 False\n"


def test_broken_barriers():
    assert said_by("""
def child(barrier, results):
    results.put(told(barrier.wait)[0])
barrier, results = Barrier(2), Queue()
print(told(barrier.wait, timeout=0.01)[0], barrier.broken)
print(told(started, child, barrier, results).join(), results.get())
barrier.reset()
print(barrier.broken)
print(told(Barrier, 0), told(Barrier, action=3)[0], told(barrier.wait, -1)[0])
called = []
barrier = Barrier(1, action=lambda: called.append(os.getpid()))
print(barrier.wait(), called == [os.getpid()], issubclass(BrokenBarrierError, threading.BrokenBarrierError))
""") == (
        "BrokenBarrierError True\n0 BrokenBarrierError\nFalse\n"
        "('ValueError', ['parties: expected a number of 1 or more, got 0']) ValueError ValueError\n0 True True\n"
    )


def test_joinable_queues_and_their_errors():
    assert said_by("""
def child(items):
    while items.get() is not None:
        items.task_done()
    items.task_done()
items = Queue(joinable=True)
for item in (1, 2, None):
    items.put(item)
print(told(items.join, timeout=0)[0])
process = started(child, items)
items.join()
print(process.join(), told(items.task_done)[0], told(Queue().join), told(Queue, main_channel=1)[0])
items.close()
print(items.closed, told(items.put, 1)[0], told(pickle.dumps, items)[0])
small = Queue(1)
small.put(1)
print(told(small.put, 2, timeout=0.01)[0], told(small.put, 2, False)[0], small.full(), small.poll(), small.node)
again = Queue.attach(small.serialize())
print(again.get(), small.empty(), told(small.get, timeout=-1)[0])
small.destroy()
print(told(again.size))
""") == (
        "TimeoutError\n0 ValueError ('QueueError', ['Queue is not joinable; make it with joinable=True.']) ValueError\n"
        "True ValueError ValueError\nFull Full True True 0\n1 True Empty\n('ValueError', ['it is destroyed'])\n"
    )


def test_the_end_of_the_process_that_made_it_is_told():
    assert said_by("""
def child(results):
    queue, event = Queue(), Event()
    queue.put("in it")
    results.put((queue, event))
    print(queue.get(), flush=True)
    event.wait()
results = Queue()
process = started(child, results)
theirs, event = results.get()
event.set()
process.join()
print(told(theirs.get)[0], "which made it, has ended" in told(event.is_set)[1][0])
""") == "in it\nConnectionError True\n"


def test_ctrl_c_ends_a_wait_and_the_next_call_is_answered_right():
    assert said_by("""
def child(items, ready, results):
    def handler(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGUSR1, handler)
    results.put(told(lambda: (ready.set(), items.get()))[0])
    results.put((items.get(), items.get()))
items, ready, results = Queue(), Event(), Queue()
process = started(child, items, ready, results)
ready.wait()
process.send_signal(signal.SIGUSR1)
print(results.get())
items.put("first"); items.put("second")
print(results.get(), process.join())
""") == "KeyboardInterrupt\n('first', 'second') 0\n"


def test_locks():
    assert said_by("""
def child(lock, results):
    results.put((lock.acquire(block=False), lock.acquire(timeout=0.01), lock.count()))
    lock.release()
lock, results = Lock(), Queue()
with lock:
    print(lock.is_mine(), lock.count(), started(child, lock, results).join(), results.get())
    lock.acquire()                     # what the child has released, any may take
again = Lock(recursive=True)
print(again.acquire(), again.acquire(), again.count(), again.is_recursive())
again.release(); again.release()
print(told(again.release)[0], told(lock.release)[0])
""") == "True 1 0 (False, False, 0)\nTrue True 2 True\nAssertionError ValueError\n"


def test_a_pipe_is_read_by_another_process():
    assert said_by("""
def child(connection, results):
    text = ""
    try:
        while True:
            text += connection.recv()
    except EOFError:
        connection.close()
    results.put((text, connection.closed, told(connection.recv)))
results = Queue()
script = "read word; echo got $word; printf '\\\\303\\\\244 \\\\377'"
process = Process("sh", ["-c", script], stdin=Process.PIPE, stdout=Process.PIPE)
process.start()
reader = started(child, process.stdout_conn, results)
process.stdin_conn.send("word\\n")
print(results.get(), reader.join(), process.join())
ours = process.stdin_conn
print(ours.writable, process.stdout_conn.readable, told(ours.recv)[0], told(ours.send, 3)[0])
""") == (
        "('got word\\nä \\\\xff', True, ('OSError', ['the connection is closed'])) 0 0\nTrue True OSError WrongType\n"
    )


def test_bytes_of_a_pipe():
    assert said_by("""
process = Process("cat", stdin=Process.PIPE, stdout=Process.PIPE)
process.start()
ours, theirs = process.stdin_conn, process.stdout_conn
print(theirs.poll())
ours.send_bytes(b"0123456789", 2, 5)
print(theirs.poll(None), theirs.recv_bytes(3))
buffer = bytearray(4)
print(theirs.recv_bytes_into(buffer, 1), buffer, theirs.fileno() > 2)
with ours:
    pass
print(told(theirs.recv_bytes)[0], process.join(), told(ours.send, "late"))
""") == (
        "False\nTrue b'234'\n2 bytearray(b'\\x0056\\x00') True\nEOFError 0 ('OSError', ['the connection is closed'])\n"
    )


def test_a_stranger_that_says_nothing_keeps_nobody_waiting_and_one_without_the_key_is_not_heard():
    assert said_by("""
import multiprocessing, multiprocessing.connection, socket
def child(items):
    items.put("heard")
items = Queue()
_, address, key, number = items._place
silent = socket.socket(socket.AF_UNIX)
silent.connect(address)
print(told(multiprocessing.connection.Client, address, "AF_UNIX", authkey=b"another")[0])
rude = multiprocessing.connection.Client(address, "AF_UNIX")
rude.recv_bytes()
rude.send((number, "put", (pickle.dumps("not heard"), True, None)))
print(rude.recv_bytes(), started(child, items).join(), items.get(), items.size())
""") == "AuthenticationError\nb'#FAILURE#' 0 heard 0\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_is_not_heard_though_he_knows_the_key():
    assert said_by("""
import hmac, multiprocessing.connection                # what is imported late, another user cannot read
items = Queue()
_, address, key, number = items._place
child = os.fork()
if not child:
    os.setuid(65534)
    said = told(multiprocessing.connection.Client, address, "AF_UNIX", authkey=key)
    os._exit(said[0] not in ("EOFError", "ConnectionResetError", "BrokenPipeError"))
print(os.waitpid(child, 0)[1], items.size())
""") == "0 0\n"


def test_what_nobody_else_has_goes_with_its_handle():
    """Also a process's pipe, whose descriptor would be missed."""
    assert said_by("""
import gc
from dragon import _shared
items, kept = Queue(), Queue()
there = len(_shared._home()._objects)
for _ in range(3):
    process = Process("true", stdout=Process.PIPE)
    process.start()
    process.join()
    Event(), Lock(), Barrier()
given = Queue()
items.put(given)
del process, given
gc.collect()
print(len(_shared._home()._objects) - there, items.get().size())
""") == "1 0\n"


def test_fork_in_a_program_that_has_them():
    """multiprocessing's children call the process that they were forked from."""
    assert said_by("""
import multiprocessing
items = Queue()
child = multiprocessing.get_context("fork").Process(target=items.put, args=(7,))
child.start()
print(items.get(), child.join(), child.exitcode)
""") == "7 None 0\n"
