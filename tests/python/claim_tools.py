"""What tests of claims in Python do all the time."""
import threading
import time

import tholepin


def claims():
    return tholepin.status()["claims"]


def eventually(condition):
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def in_threads(count, work):
    """Does ``work()`` in so many threads at the same time; what any of them raises is raised here."""
    problems = []

    def noting():
        try:
            work()
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=noting) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
