"""Functions for the workers of pools under test: they are found by name, as a program's own modules are."""
import fcntl
import json
import os
import pickle
import signal
import sys
import time


def square(x):
    return x * x


def where(_=None):
    return os.environ.get("CUDA_VISIBLE_DEVICES"), tuple(sorted(os.sched_getaffinity(0)))


def pid_of(_=None):
    return os.getpid()


def fail(x):
    raise ValueError(f"no {x}")


class Picky(Exception):
    """Pickles, and cannot be loaded."""

    def __init__(self, one, two):
        super().__init__(one)


def fail_pickily(_):
    raise Picky("one", "two")


def unpicklable(_):
    return (one for one in ())


def end_with(status):
    os._exit(status)


def kill_self(_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(path):
    """Dies the first time it is called with this path, and then returns how it was called."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "again"
    os._exit(5)


def meet(path):
    """Waits at a FIFO until the test, or another call, opens its other end."""
    with open(path, "rb") as fifo:
        return fifo.read()


def lock(path):
    """Waits until nobody else has this file locked."""
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def sleep(seconds):
    time.sleep(seconds)


def refuse():
    raise RuntimeError("this worker will not start")


REMEMBERED = []


def remember(word):
    REMEMBERED.append(word)


def remembered(_=None):
    return list(REMEMBERED)


def child_says(word):
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(str.upper, (word,))


class Frame:
    """An object whose bytes travel out of band, as a NumPy array's do."""

    def __init__(self, data):
        self.data = data

    def __reduce_ex__(self, protocol):
        return type(self), (pickle.PickleBuffer(self.data),)


def flipped(frame):
    assert isinstance(frame.data, (memoryview, bytearray)), type(frame.data)
    frame.data[0] ^= 0xFF  # ours to write to
    return Frame(bytearray(frame.data))


def claimed_here(gpus):
    import tholepin

    try:
        with tholepin.claim(gpus, wait=0) as claim:
            return claim.indices
    except tholepin.Error as error:
        return type(error).__name__


def mine_and_claimed(_):
    mine = os.environ["CUDA_VISIBLE_DEVICES"]
    return mine, claimed_here(1)[0]


def modules_at_start(_=None):
    return "torch" in sys.modules


if __name__ == "__main__":
    sys.exit("for tests")


def claims_one(_):
    """The keys of this worker's GPUs, and of one that it claims."""
    import tholepin

    own = [gpu["key"] for gpu in json.loads(os.environ["THOLE_GPUS"])]
    with tholepin.claim(1, wait=0) as claim:
        return own, list(claim.uuids)


def fork_and(how):
    """Leaves a copy of the worker behind, which ends like this; waits for it, and tells its status."""
    copy = os.fork()
    if copy == 0:
        if how == "fails":
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            raise ValueError("in the copy")
        if how == "exits":
            sys.exit(7)
        return how
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


class Refusing:
    """In the place of a stream."""

    def write(self, text):
        raise RuntimeError(text)

    flush = None


def lists_of_sys():
    return sys.argv, all(type(entry) is str for entry in sys.path)


def leave_group_and_sleep(path):
    os.setpgid(0, os.getpgid(os.getppid()))
    with open(path, "w"):
        pass
    time.sleep(1000)


class ForksWhenLoaded:
    def __init__(self, how):
        self.how = how

    def __reduce__(self):
        return fork_and, (self.how,)


class ForksWhenSent(ForksWhenLoaded):
    def __reduce__(self):
        return int, (fork_and(self.how),)


def forks_when_sent(how):
    return ForksWhenSent(how)


def same(value):
    return value
