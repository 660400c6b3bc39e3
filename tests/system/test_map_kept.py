"""`thole map -k` behind a slow task: what is kept needs little memory and few descriptors, however much it is."""
import os
import pathlib

import pytest

from run_tools import Started, eventually
from test_map import box  # noqa: F401 (a fixture)
from test_map_fails import unread

ALL = 60_000_000


def peak(pid):
    """The most bytes of memory that it has had."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def exactly(stream, size):
    pieces = []
    while size > 0 and (piece := os.read(stream.fileno(), size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("size", [60_000, 200_000])    # a small one, and one that has a file of its own
def test_what_waits_for_a_slow_task_costs_little(box, size):
    items = [str(number) for number in range(1, ALL // size + 1)]
    os.mkfifo(box.folder / "gate")
    (box.folder / "text").write_text("x" * (size - 1) + "\n")
    task = "[ {} = 1 ] && { echo > begun; cat gate; }; echo {}; echo error {} >&2; cat text"
    command = ["prlimit", "--nofile=128", *box.words, "map", "-q", "-k", "-g", "0", "-j", "3", "--joblog", "log"]
    log = box.folder / "log"
    with open(box.folder / "errors", "w") as errors, Started([*command, "sh", "-c", task, ":::", *items], stderr=errors,
                                                             env=box.environment, cwd=box.folder) as started:
        eventually((box.folder / "begun").exists, "it runs")
        before = peak(started.pid)
        eventually(lambda: log.read_text().count("\n") == len(items), "all others have ended", seconds=60)
        (box.folder / "gate").write_text("")
        eventually(lambda: unread(started.process.stdout) > 30_000, "a pipe is full")
        whole = "".join(f"{number}\n" + "x" * (size - 1) + "\n" for number in items).encode()
        assert exactly(started.process.stdout, ALL // 2) == whole[:ALL // 2]
        assert peak(started.pid) - before < ALL // 4       # also of what nobody has read
        assert started.process.stdout.read() == whole[ALL // 2:]
        assert started.wait() == 0
    assert (box.folder / "errors").read_text() == "".join(f"error {number}\n" for number in items)


def test_what_is_kept_is_shown_where_files_have_no_room(box):
    items = [str(number) for number in range(1, 121)]
    (box.folder / "text").write_text("x" * 59_999 + "\n")
    os.mkfifo(box.folder / "gate")
    task = "[ {} = 1 ] && cat gate; echo {}; cat text"
    command = ["prlimit", "--fsize=70000", *box.words, "map", "-q", "-k", "-g", "0", "-j", "3", "--joblog", "log"]
    with Started([*command, "sh", "-c", task, ":::", *items], env=box.environment, cwd=box.folder) as started:
        log = box.folder / "log"
        eventually(lambda: log.exists() and log.read_text().count("\n") == len(items), "all others have ended")
        (box.folder / "gate").write_text("")
        shown = started.process.stdout.read().split()
        assert started.wait() == 0
    assert [word.decode() for word in shown[::2]] == items and {len(word) for word in shown[1::2]} == {59_999}
