"""The queue's disk is full: what a lane has to tell is kept until there is room, and no status is lost.

The disk is a small tmpfs in a mount namespace of this process, so it takes root (or a user who may mount).
"""
import ctypes
import os
import select
import shutil
import signal
import subprocess

import pytest

from queue_inside import Queue, shell
from run_tools import THOLE, Started, eventually

CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 0x40000, 2
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
libc = ctypes.CDLL(None, use_errno=True)


def mount_disk(place, megabytes):
    words = f"size={megabytes}m,mode=0700".encode()
    if (libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0
            or libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, words) != 0):
        pytest.skip(f"cannot mount a small disk here: {os.strerror(ctypes.get_errno())}")


@pytest.fixture
def queue(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount_disk(disk, 16)
    made = Queue(tmp_path)
    made.directory = disk / "queue"
    made.environment["THOLE_QUEUE_DIR"] = str(made.directory)
    yield made
    made.end_everything()
    libc.umount2(os.fsencode(disk), MNT_DETACH)


@pytest.fixture
def queue_on_ext4(tmp_path):
    """On a disk whose files may have holes: what is written there needs room anew, as on a disk that copies what it changes."""
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        pytest.skip("needs a mount namespace of its own")
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    for words in (["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", image], ["mount", "-o", "loop", image, disk]):
        if shutil.which(words[0]) is None or subprocess.run(words, capture_output=True).returncode != 0:
            pytest.skip(f"cannot {words[0]} here")
    made = Queue(tmp_path)
    made.directory = disk / "queue"
    made.environment["THOLE_QUEUE_DIR"] = str(made.directory)
    yield made
    made.end_everything()
    subprocess.run(["umount", disk], check=True)


def fill(queue):
    """Not a byte is left on the queue's disk, until the file is removed."""
    filler = queue.directory.parent / "filler"
    with open(filler, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                pass
    return filler


def punch_a_hole(path):
    """Its whole content is gone, and the room for it."""
    keep_size_and_punch = 1 | 2
    with open(path, "r+b") as file:
        size = ctypes.c_long(os.fstat(file.fileno()).st_size)
        assert libc.fallocate(file.fileno(), keep_size_and_punch, ctypes.c_long(0), size) == 0, os.strerror(ctypes.get_errno())


def in_the_lanes_record(queue, exit_code):
    """Has a lane noted that a task ended so? Phase 3 of its first place; see model/lane_record.hpp."""
    return any(queue.noted_end(number) == exit_code for number in range(4))


@pytest.mark.parametrize("lane_dies", [False, True])
def test_an_end_that_the_store_has_no_room_for_is_stored_when_there_is_some(queue, tmp_path, lane_dies):
    job = queue.submit("-g", "1", *shell("echo x > begun; until [ -e go ]; do sleep 0.02; done; exit 7"))
    eventually(lambda: (tmp_path / "begun").exists(), "it runs")
    filler = fill(queue)
    (tmp_path / "go").touch()
    eventually(lambda: in_the_lanes_record(queue, 7), "its end is in the lane's record")
    if lane_dies:
        queue.kill(queue.lanes() + [pid for pid in [queue.runner()] if pid])
        eventually(lambda: not queue.lanes() and queue.runner() is None, "all of ours are dead")
    assert queue.states(job) == {"running": 1}, "the disk is not full"
    assert queue.call("submit", "-g", "0", "--", "true", check=False).returncode == 69
    filler.unlink()
    assert queue.call("jobs", job).returncode == 0   # starts a runner where there is none
    queue.until_ended(job)
    assert queue.tasks(job)[0][:2] == ("failed", 7)


def test_what_has_ended_and_cannot_be_written_is_said_and_keeps_no_gpu(queue, tmp_path):
    job = queue.submit("-g", "1", *shell("echo x > begun; until [ -e go ]; do sleep 0.02; done; exit 7"))
    eventually(lambda: (tmp_path / "begun").exists(), "it runs")
    waits = queue.submit("-g", "4", *shell("true"))
    filler = fill(queue)
    (tmp_path / "go").touch()

    def told():
        return [line for line in queue.call("jobs").stdout.splitlines() if "disk full; ended" in line and "exit 7" in line]

    [line] = eventually(told, "jobs says that it has ended")
    why = " ".join(queue.call("why", "job", job).stdout.split())
    assert "it ended" in why and "exit status 7" in why and f"disk full: {queue.directory}" in why, why
    assert "not written" in queue.call("jobs", job, "--tasks").stdout
    assert "disk full: " in queue.call("jobs", waits).stdout, "what waits does not start next"
    eventually(lambda: queue.call("run", "-g", "4", "--no-wait", "true", check=False).returncode == 0, "others have its GPU")
    assert queue.states(job) == {"running": 1} and told() == [line], "its TIME stands"
    filler.unlink()
    queue.call("pause", job)                         # its lane hears of that, and tries again at once
    queue.until_ended(job)
    queue.call("resume", waits)                      # so does the runner
    queue.until_ended(waits)
    assert queue.tasks(job)[0][:2] == ("failed", 7)


def test_a_log_that_fills_the_disk_ends_no_task_and_loses_no_status(queue, tmp_path):
    """The task meets the full disk itself; what it makes of it is its own affair, and its status is kept."""
    job = queue.submit("-g", "1", *shell("head -c 40000000 /dev/zero; echo $? > status; exit 5"))
    eventually(lambda: (tmp_path / "status").exists(), "its log has filled the disk")
    assert (tmp_path / "status").read_text() != "0\n"
    eventually(lambda: in_the_lanes_record(queue, 5), "its end is in the lane's record")
    log = queue.directory / "logs" / f"{job}.log"
    assert log.stat().st_size > 8_000_000 and log.open().readline().startswith("# thole job")
    os.truncate(log, 4096)                           # somebody makes room
    queue.until_ended(job)
    assert queue.tasks(job)[0][:2] == ("failed", 5)
    other = queue.submit("-g", "1", *shell("echo fine"))
    queue.until_ended(other)
    assert "fine" in queue.log(other)


def test_a_log_that_has_filled_the_disk_can_be_removed(queue, tmp_path):
    """As anybody would: what keeps it open would keep its room. Meanwhile it is said what all wait for."""
    job = queue.submit("-g", "1", *shell("head -c 40000000 /dev/zero; echo $? > status; exit 5"))
    behind = queue.submit("-g", "1", "--after", f"{job}:any", *shell("true"))
    eventually(lambda: in_the_lanes_record(queue, 5), "its end is in the lane's record")
    eventually(lambda: "disk full; ended" in queue.call("jobs").stdout, "jobs says that it has ended")
    why = " ".join(queue.call("why", "job", behind).stdout.split())
    assert "cannot be written" in why and f"disk full: {queue.directory}" in why, why
    waited = queue.call("wait", "--timeout", "0s", job, check=False)
    assert f"disk full: {queue.directory}" in " ".join(waited.stderr.split()), waited.stderr
    (queue.directory / "logs" / f"{job}.log").unlink()
    queue.call("submit", "-g", "0", *shell("true"))   # there is room at once
    queue.call("pause", job)                         # its lane hears of that, and tries again at once
    queue.until_ended(job)
    assert queue.tasks(job)[0][:2] == ("failed", 5)


def test_a_copy_of_code_that_has_no_room_names_its_place(queue, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "large").write_bytes(b"x" * (20 << 20))
    refused = queue.call("submit", "--snapshot", "--", "true", cwd=code, check=False)
    assert refused.returncode == 69
    said = " ".join(refused.stderr.split())
    assert f"cannot write: {queue.directory}/snapshots/" in said and "No space left" in said, said
    assert list((queue.directory / "snapshots").iterdir()) == []


def test_of_a_disk_that_can_only_be_read_all_is_shown_and_nothing_changed(queue, tmp_path):
    job = queue.submit("-g", "1", *shell("echo said; exit 3"))
    queue.until_ended(job)
    cut = queue.submit("-g", "1", "--", "sleep", "600")    # stands as running, with its lane's record
    eventually(lambda: queue.commands(), "it runs")
    queue.kill([pid for pid in [queue.runner(), *queue.lanes(), *queue.commands()] if pid])
    eventually(lambda: queue.runner() is None and not queue.lanes() and not queue.commands(), "nobody writes there any more")
    if libc.mount(None, os.fsencode(queue.directory.parent), None, MS_REMOUNT | MS_RDONLY, None) != 0:
        pytest.skip("cannot remount the disk")
    perhaps_old = "what has ended since may still be shown as running"
    shown = queue.call("jobs")
    assert "failed" in shown.stdout and " ".join(shown.stderr.split()).count(perhaps_old) == 1, shown.stderr
    assert "said" in queue.call("logs", job).stdout
    assert "failed" in queue.call("why", "job", job).stdout
    why = queue.call("why", "job", cut)
    assert f"job {cut}" in why.stdout and perhaps_old in " ".join(why.stderr.split()), why.stderr
    waited = queue.call("wait", cut, "--timeout", "1500ms", check=False)
    assert waited.returncode == 124 and " ".join(waited.stderr.split()).count(perhaps_old) == 1, waited.stderr
    refused = queue.call("retry", job, check=False)
    assert refused.returncode == 69 and "Read-only file system" in refused.stderr, refused.stderr


def maps_of(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return maps.read()


@pytest.fixture
def shown(queue, tmp_path):
    """The queue's disk mounted a second time, read-only."""
    place = tmp_path / "shown"
    place.mkdir()
    disk = os.fsencode(queue.directory.parent)
    if (libc.mount(disk, os.fsencode(place), None, MS_BIND, None) != 0
            or libc.mount(None, os.fsencode(place), None, MS_BIND | MS_REMOUNT | MS_RDONLY, None) != 0):
        pytest.skip("cannot mount the disk a second time")
    yield place
    libc.umount2(os.fsencode(place), MNT_DETACH)


def test_who_can_only_read_the_disk_waits_for_who_writes_the_index_of_the_log(queue, tmp_path, shown):
    """Its header is written twice, one after the other. SQLite says of one seen between the two that it must be mended, where
    it may not be written: at once."""
    job = queue.submit("-g", "1", *shell("touch begun; exec sleep 600"))
    eventually(lambda: (tmp_path / "begun").exists(), "it runs")
    writers = [queue.runner(), *queue.lanes()]
    for pid in writers:
        os.kill(pid, signal.SIGSTOP)
    changes_of_second_header = 48 + 8            # WalIndexHdr.iChange in SQLite's wal.c
    with open(queue.directory / "queue.db-shm", "r+b", buffering=0) as index:
        index.seek(changes_of_second_header)
        whole = index.read(4)
        os.pwrite(index.fileno(), bytes(byte ^ 255 for byte in whole), changes_of_second_header)
        with Started([THOLE, "jobs"], env=dict(queue.environment, THOLE_QUEUE_DIR=str(shown / "queue"))) as looks:
            eventually(lambda: str(shown / "queue" / "queue.db-shm") in maps_of(looks.pid), "it looks at the index")
            os.pwrite(index.fileno(), whole, changes_of_second_header)
            assert looks.wait() == 0, looks.process.stderr.read()
            assert f" {job} " in looks.process.stdout.read().decode()
    for pid in writers:
        os.kill(pid, signal.SIGCONT)


def test_who_can_only_read_the_disk_waits_and_follows_by_looking(queue, tmp_path, shown):
    """The same disk may be mounted twice: what is written by one way is seen by the other, which nobody can be told of."""
    job = queue.submit("-g", "1", *shell("echo said; touch begun; until [ -e go ]; do sleep 0.02; done; exit 3"))
    eventually(lambda: (tmp_path / "begun").exists(), "it runs")
    environment = dict(queue.environment, THOLE_QUEUE_DIR=str(shown / "queue"))
    assert queue.call("wait", job, "--timeout", "0", check=False, THOLE_QUEUE_DIR=str(shown / "queue")).returncode == 124
    def start(*words):
        return Started([THOLE, *map(str, words)], env=environment, cwd=tmp_path)

    with start("wait", job) as waits, start("logs", "-f", job) as follows, start("jobs", "--watch") as watches:
        follows.until("said")
        while "running" not in watches.line():
            pass
        (tmp_path / "go").touch()
        assert waits.wait() == 3, waits.process.stderr.read()
        assert follows.wait() == 0, follows.process.stderr.read()
        while "failed" not in watches.line():
            pass
    assert queue.call("wait", job, check=False, THOLE_QUEUE_DIR=str(shown / "queue")).returncode == 3


def test_a_lane_whose_record_has_no_room_any_more_keeps_the_end_of_its_task(queue_on_ext4, tmp_path):
    """btrfs, and xfs of what was copied, write a page that is on the disk already into another place, for which there may be no
    room: a store into memory then ends who makes it."""
    queue = queue_on_ext4
    job = queue.submit("-g", "1", *shell("echo x > begun; until [ -e go ]; do sleep 0.02; done; echo x > ended; exit 7"))
    eventually(lambda: (tmp_path / "begun").exists(), "it runs")
    lane = queue.working_lane()
    subprocess.run(["sync", "-f", queue.directory], check=True)
    punch_a_hole(queue.directory / "lanes" / "0")
    for _ in range(3):
        filler = fill(queue)
        subprocess.run(["sync", "-f", queue.directory], check=True)
    end = os.pidfd_open(lane)
    try:
        (tmp_path / "go").touch()
        eventually(lambda: (tmp_path / "ended").exists(), "it ends")
        # Others have its GPU: the lane has tried to store the end, and given its claim back.
        eventually(lambda: queue.call("run", "-g", "4", "--no-wait", "true", check=False).returncode == 0, "its GPU is free")
        assert not select.select([end], [], [], 0)[0], "the lane lives"
        assert queue.states(job) == {"running": 1}, "the disk is not full"
        filler.unlink()
        queue.call("jobs", job)
        queue.until_ended(job, 60)
    finally:
        os.close(end)
    assert queue.tasks(job)[0][:2] == ("failed", 7)
