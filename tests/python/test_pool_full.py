"""Pools where a program, or a task, has used up its descriptors: what takes one fails alone, and says why."""
import errno
import subprocess
import sys

import pytest

FULL = """
import os, resource, sys, tholepin

def kept():  # one list in each process, also where functions travel by value
    return vars(os).setdefault("kept", [])

def fill(free):
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        while True:
            kept().append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(free):
        os.close(kept().pop())

def empty():
    while kept():
        os.close(kept().pop())

def told(path):
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 1)
    os.close(fd)
    return bytes(100000)

def outcome(result):
    try:
        return len(result.get(200))
    except tholepin.Error as error:
        return error.code, error.errno, str(error)

if __name__ == "__main__":
    free = int(sys.argv[1])
    with tholepin.Pool(1, quiet=True) as pool:
"""
NOT_TAKEN = str((69, errno.EMFILE,
                 "cannot receive a large object: Too many open files\n  raise the descriptor limit: ulimit -n"))


def said_by(folder, text, *arguments):
    """The lines that a program prints; it must end well."""
    path = folder / "program.py"
    path.write_text(text)
    done = subprocess.run([sys.executable, path, *arguments], stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0
    return done.stdout.splitlines()


@pytest.mark.parametrize("free", ["0", "1"])
def test_a_large_result_that_finds_no_descriptor_fails_alone(tmp_path, free):
    said = said_by(tmp_path, FULL + """
        os.mkfifo(sys.argv[2])
        large, small = pool.apply_async(told, (sys.argv[2],)), pool.apply_async(bytes, (10,))
        tell = os.open(sys.argv[2], os.O_WRONLY)
        fill(free)
        os.write(tell, b".")
        print(outcome(large), outcome(small), sep=chr(10))
        empty()
        print(len(pool.apply(bytes, (100000,))))
""", free, tmp_path / "fifo")
    assert said == [NOT_TAKEN, "10", "100000"]


@pytest.mark.parametrize("free", ["0", "1"])
def test_a_large_argument_that_finds_no_descriptor_in_the_worker_fails_alone(tmp_path, free):
    said = said_by(tmp_path, FULL + """
        pool.apply(fill, (free,))
        print(outcome(pool.apply_async(bytes, (bytes(100000),))), len(pool.apply(bytes, (10,))), sep=chr(10))
        pool.apply(empty)
        print(len(pool.apply(bytes, (bytes(100000),))))
""", free)
    assert said == [NOT_TAKEN, "10", "100000"]
