"""The power goes while a queue works: no task that has begun is run again without --retry lost, whatever the disk has of it.

The disk that forgets is a preloaded library (fake/power_cut.c): of the queue it has what was synced, and of the lanes' records
what they were at some earlier moment, as a kernel writes them when it likes. With THOLE_POWER_CUTS=N the same is done N times
on a real file system: ext4 on a loop device, whose backing file is copied while every process stands still; this takes root.
The next boot is this one: what is left on the disk is made to be of another. A disk that is taken down by an error, checked and
mounted again needs no boot for that; that is tried as root wherever there are loop devices.
"""
# ctest: timeout 900
import collections
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from other_boots import booted_since
from queue_inside import Queue
from run_tools import BUILD, THOLE, eventually, gone

CUTS = int(os.environ.get("THOLE_POWER_CUTS", "0"))

# What has been started, and what has ended with 0, of each task: one line each, on a disk that keeps all.
TASK = """echo "start $THOLE_TASK_INDEX" >> "$JOURNAL"; sleep {}; echo "end $THOLE_TASK_INDEX" >> "$JOURNAL" """


class Powered(Queue):
    """A queue on a machine whose power can go."""

    def __init__(self, folder):
        super().__init__(folder, machine="2xA100")
        self.journal = self.folder / "journal"
        self.journal.touch()
        self.environment["JOURNAL"] = str(self.journal)

    def everybody(self):
        return [pid for pid in [self.runner()] if pid] + self.lanes() + self.commands()

    def end_of_the_world(self):
        """All that lives is killed, and the machine's memory is gone."""
        victims = set()
        def dead():
            victims.update(self.everybody())
            self.kill(victims)
            return all(gone(pid) for pid in victims) and not self.everybody()
        eventually(dead, self.who_lives)
        shutil.rmtree(self.folder / "claims", ignore_errors=True)

    def journal_counts(self):
        starts, ends = collections.Counter(), collections.Counter()
        for line in self.journal.read_text().splitlines():
            what, task = line.split()
            (starts if what == "start" else ends)[int(task)] += 1
        return starts, ends

    def until_ends(self, number):
        eventually(lambda: sum(self.journal_counts()[1].values()) >= number, lambda: f"{number} ends\n{self.runner_log()}", 120)


class Forgetful(Powered):
    """Its disk has nothing but what was synced."""

    def __init__(self, folder):
        super().__init__(folder)
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.preloaded = dict(self.environment, LD_PRELOAD=str(BUILD / "fake/power_cut.so"), FAKE_DISK=str(self.disk),
                              FAKE_DISK_OF=str(self.directory),
                              ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")

    def runner_with_our_disk(self):
        """One that was started without it, by a submission a moment ago, may still come."""
        pid = self.runner()
        try:
            if pid and "power_cut.so" in pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace"):
                return True
        except OSError:
            return False
        if pid:
            self.kill([pid])
        subprocess.run([THOLE, "__runner"], env=self.preloaded, check=True, capture_output=True, timeout=60)
        return False

    def begin(self, tasks, seconds):
        """An array, its runner with our disk; the number of the job."""
        words = ["--array", f"0-{tasks - 1}"] if tasks > 1 else []
        job = self.submit("--hold", *words, "--", "sh", "-c", TASK.format(seconds), **self.preloaded)
        eventually(self.runner_with_our_disk, "the runner with our disk")
        self.call("resume", job, **self.preloaded)
        return job

    def cut(self, records):
        """The power goes; the directory is what is on the disk then, with these records of lanes. What was started by then."""
        starts, ends = self.journal_counts()            # before the disk is looked at: it may have more, never less
        lock = os.open(self.disk, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        image = self.folder / "image"
        shutil.copytree(self.disk, image, ignore=shutil.ignore_patterns("*.new"))
        os.close(lock)
        self.end_of_the_world()
        shutil.rmtree(self.directory)
        image.rename(self.directory)
        os.chmod(self.directory, 0o700)
        if records:
            (self.directory / "lanes").mkdir(mode=0o700)
            for name, content in records.items():
                (self.directory / "lanes" / name).write_bytes(content)
        booted_since(self.directory)
        return starts, ends

    def records(self):
        return {path.name: path.read_bytes() for path in (self.directory / "lanes").iterdir() if path.name.isdigit()}


@pytest.fixture
def queue(tmp_path):
    if not (BUILD / "fake/power_cut.so").exists():
        pytest.skip(f"no fake/power_cut.so in {BUILD}")
    made = Forgetful(tmp_path)
    yield made
    made.end_everything()


def goes_on(queue, job, tasks):
    """After the cut all of the job ends, and the tasks that had begun by then did not begin again."""
    eventually(lambda: sum(queue.states(job).get(state, 0) for state in ("done", "failed", "lost")) == tasks,
               lambda: f"all ends: {queue.states(job)}\n{queue.runner_log()}\n{queue.who_lives()}", 240)


def assert_none_again(queue, before, job):
    starts, _ = queue.journal_counts()
    twice = {task: count for task, count in starts.items() if before[task] and count > before[task]}
    assert not twice, f"started again after the power had gone: {twice}\n{queue.runner_log()}\n{queue.states(job)}"


@pytest.mark.parametrize("seconds", [0.2, 0])
@pytest.mark.parametrize("record", ["none", "stale"])
def test_what_has_begun_does_not_begin_again_when_the_power_goes(queue, record, seconds):
    tasks = 40 if seconds else 200
    job = queue.begin(tasks, seconds)
    queue.until_ends(3)
    records = queue.records() if record == "stale" else {}
    queue.until_ends(15 if seconds else 60)
    before, ended = queue.cut(records)
    assert sum(ended.values()) < tasks, "the job was over before the power went"
    queue.call("jobs", job)                              # whoever looks starts a runner
    goes_on(queue, job, tasks)
    assert_none_again(queue, before, job)
    states = queue.tasks(job)
    assert all(states[task][0] in ("done", "lost") for task in before), states
    assert sum(queue.journal_counts()[0].values()) > sum(before.values()), "nothing was left to go on with"


class OnABlockDevice(Powered):
    """Its queue is on an ext4 of its own."""

    def __init__(self, folder):
        super().__init__(folder)
        self.image, self.mounted = self.folder / "disk.img", self.folder / "disk"
        self.mounted.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)
        self.mount()
        self.directory = self.mounted / "queue"
        self.environment["THOLE_QUEUE_DIR"] = str(self.directory)

    def mount(self):
        subprocess.run(["mount", "-o", "loop", self.image, self.mounted], check=True)

    def cut(self):
        self.kill(self.everybody(), signal.SIGSTOP)
        starts, ends = self.journal_counts()
        left = self.folder / "left.img"
        shutil.copyfile(self.image, left)
        self.end_of_the_world()
        subprocess.run(["umount", self.mounted], check=True)
        left.rename(self.image)
        self.mount()
        booted_since(self.directory)
        return starts, ends


    def taken_down_and_mounted_again(self):
        """As an error of the disk does it: what was not synced is gone, though the machine was not booted."""
        subprocess.run(["mount", "-o", "remount,abort", self.mounted], check=True)
        starts, ends = self.journal_counts()
        self.end_of_the_world()
        subprocess.run(["umount", self.mounted], check=True)
        # Another file: somebody's mount namespace that was made meanwhile keeps the one that is aborted, and a mount of the
        # same file would be that one again, read-only.
        left = self.folder / "left.img"
        shutil.copyfile(self.image, left)
        left.rename(self.image)
        checked = subprocess.run(["e2fsck", "-fy", self.image], capture_output=True, text=True, check=False)
        assert checked.returncode <= 1, checked.stdout
        self.mount()
        return starts, ends


@pytest.fixture
def queue_on_a_block_device(tmp_path):
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control") or not os.path.isdir("/sys/fs/ext4"):
        pytest.skip("mounting an ext4 takes root and loop devices")
    queue = OnABlockDevice(tmp_path)
    yield queue
    queue.end_everything()
    subprocess.run(["umount", "-l", queue.mounted], check=False)


@pytest.mark.parametrize("seconds", [0.01, 0.3])
def test_nor_when_the_disk_is_taken_down_and_mounted_again_without_a_boot(queue_on_a_block_device, seconds):
    queue = queue_on_a_block_device
    tasks = 400 if seconds < 0.1 else 40
    job = queue.submit("--array", f"0-{tasks - 1}", "--", "sh", "-c", TASK.format(seconds))
    queue.until_ends(15)
    before, ended = queue.taken_down_and_mounted_again()
    assert sum(ended.values()) < tasks, "the job was over before"
    queue.call("jobs", job)
    goes_on(queue, job, tasks)
    assert_none_again(queue, before, job)
    assert sum(queue.journal_counts()[0].values()) > sum(before.values()), "nothing was left to go on with"


def test_a_disk_that_is_unmounted_and_mounted_in_good_order_makes_nothing_lost(queue_on_a_block_device):
    queue = queue_on_a_block_device
    job = queue.submit("--array", "0-39", "--", "sh", "-c", TASK.format(0.1))
    queue.until_ends(10)
    queue.call("drain")
    eventually(lambda: not queue.everybody(), lambda: f"all leave: {queue.who_lives()}\n{queue.runner_log()}")
    unmount = ["umount", queue.mounted]
    eventually(lambda: subprocess.run(unmount, check=False, capture_output=True).returncode == 0, "nobody uses it")
    queue.mount()
    queue.call("drain", "--off")
    goes_on(queue, job, 40)
    assert queue.states(job) == {"done": 40}


@pytest.mark.skipif(CUTS == 0, reason="real cuts of the power: THOLE_POWER_CUTS=20, as root, with ext4 on a loop device")
def test_the_same_on_a_real_file_system(tmp_path):
    total = collections.Counter()
    for number in range(CUTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        queue = OnABlockDevice(folder)
        try:
            seconds, tasks = (0.3, 60) if number % 2 else (0.01, 400)
            job = queue.submit("--array", f"0-{tasks - 1}", "--", "sh", "-c", TASK.format(seconds))
            queue.until_ends(20 if number % 2 else 150)
            if number % 3 == 0:
                subprocess.run(["sync", "-f", queue.mounted], check=True)   # what the kernel does within half a minute
                queue.until_ends(25 if number % 2 else 200)
            before, ended = queue.cut()
            queue.call("jobs", job)
            goes_on(queue, job, tasks)
            assert_none_again(queue, before, job)
            total.update(cuts=1, begun=sum(before.values()), ended=sum(ended.values()), lost=queue.states(job).get("lost", 0),
                         tasks=tasks)
        finally:
            queue.end_everything()
            subprocess.run(["umount", "-l", queue.mounted], check=False)
    print(dict(total), file=sys.stderr)
