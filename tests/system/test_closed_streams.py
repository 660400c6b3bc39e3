"""A program started with 0, 1 or 2 closed, as daemons and cron jobs start some: no text gets into a file of the claims, and
what is closed stays closed for the command."""
import itertools
import os
import pathlib
import subprocess

import pytest

from queue_tools import Queue
from run_tools import THOLE

CLOSED = [which for size in range(4) for which in itertools.combinations((0, 1, 2), size)]
# What the commands print and no file of the claims holds.
PRINTED = (b"thole: ", b"IDLE", b"CLAIMED", b"GPU ", b"CPUs", b"released", b"usage")


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


def with_closed(queue, closed, *words):
    closes = " ".join(f"{number}>&-" for number in closed)
    return subprocess.run(["sh", "-c", f'exec "$@" {closes}', "sh", THOLE, *map(str, words)], env=queue.env, cwd=queue.work,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


def text_in_files(folder):
    found = []
    for path in filter(pathlib.Path.is_file, pathlib.Path(folder).rglob("*")):
        content = path.read_bytes()
        found += [(path.name, word) for word in PRINTED if word in content]
    return found


@pytest.mark.parametrize("closed", CLOSED, ids=lambda closed: "none" if not closed else "".join(map(str, closed)))
def test_no_text_lands_in_a_file(queue, closed):
    def thole(*words, status=0):
        done = with_closed(queue, closed, *words)
        assert done.returncode in (status if isinstance(status, tuple) else (status,)), (words, done)
        assert text_in_files(queue.folder / "state") == []

    unwritable = 125 if 1 in closed else 0    # its output is what it is for, as with /dev/full
    thole("status", status=unwritable)
    thole("status", "--json", status=unwritable)
    seen = queue.work / "seen"
    thole("run", "-v", "-g", 1, "--", "sh", "-c",
          'for n in 0 1 2; do [ -e /proc/$$/fd/$n ] || gone="$gone$n"; done; exec 9>seen; echo "$gone" >&9')
    assert seen.read_text().strip() == "".join(map(str, closed))
    thole("run", "-g", 9, "--", "true", status=64)      # an error's text
    thole("map", "-v", "-g", 1, "true", ":::", "a", "b")
    thole("claim", "-g", 1, "--time", "60s", status=unwritable)
    thole("status", status=unwritable)
    for claim in queue.json("status")["claims"]:
        queue("release", claim["id"])
    thole("submit", "--", "true", status=unwritable)
    queue("wait")
    assert text_in_files(queue.directory / "lanes") == []


def test_the_programs_own_descriptors_are_taken(queue):
    """Whatever the program opens has another number: 0 to 2 are a directory that can be neither read nor written."""
    done = with_closed(queue, (0, 1, 2), "run", "-g", 1, "--", "sh", "-c", "exec 9>seen; ls -l /proc/$PPID/fd >&9")
    assert done.returncode == 0
    links = {}
    for line in (queue.work / "seen").read_text().splitlines():
        if " -> " in line:
            name, _, target = line.rpartition(" -> ")
            links[name.split()[-1]] = target
    assert [links[number] for number in "012"] == ["/", "/", "/"]
    assert os.path.join("state", "") in "".join(links.values())    # it holds its claim
