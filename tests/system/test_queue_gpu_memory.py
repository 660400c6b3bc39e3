"""The peak GPU memory of a task: in its log's footer, in `jobs --json`, in the table; and when it is not known.

The tasks play the CUDA program: they write into the fake driver's configuration what accounting mode would note of them.
"""
import datetime
import json
import sys

import pytest

import queue_inside
from fake_nvidia import Driver
from queue_tools import Queue
from run_tools import eventually

ENDED = {"done", "failed", "lost", "cancelled"}


class Machine(Queue):
    """A queue over a faked NVIDIA driver; `configure` says what the driver does."""

    def __init__(self, folder, gpus):
        super().__init__(folder)
        self.driver = Driver(folder, gpus)
        self.driver.with_library_of_its_own(folder)
        del self.env["THOLE_MACHINE"]
        self.env.update({name: value for name, value in self.driver.environment.items()
                         if name.startswith("THOLE_")},
                        THOLE_BIND="none", CONF=str(self.driver.conf))
        self.configure = self.driver.configure

    def ends(self, job):
        """Its tasks, when all have ended."""
        def tasks():
            all_of_it = self.json("jobs", job, "--tasks")["tasks"]
            return all_of_it if all(task["state"] in ENDED for task in all_of_it) else None
        return eventually(tasks, f"job {job} ends", 60)

    def footer(self, job):
        [line] = [line for line in self("logs", job).splitlines() if line.startswith("# ended ")]
        return line


def allocates(gpu, mib, pid="$$", started="$(date +%s%6N)"):
    return f'echo "gpu {gpu} account {pid} {mib} {started}" >> "$CONF"'


def shell(*commands):
    return ["--", "sh", "-ec", "\n".join(commands)]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path, 1)


def test_the_footer_and_the_job_have_the_peak_of_the_largest_process(machine):
    machine.configure("gpus 1", "gpu 0 accounting 1", "gpu 0 account 77 60000 1000000")
    job = machine.submit("-g", "1", *shell(allocates(0, 900), f"sh -c '{allocates(0, 4321)}' & wait", "exit 3"))
    [task] = machine.ends(job)
    assert (task["state"], task["exit_code"], task["peak_gpu_memory_mib"]) == ("failed", 3, 4321)
    assert "exit status 3" in machine.footer(job) and "; peak GPU memory 4.2 GiB" in machine.footer(job)
    assert "4.2 GiB" in machine("jobs", job, "--tasks")


def test_a_machine_file_has_accounts_too(tmp_path):
    queue = Queue(tmp_path)
    file = tmp_path / "machine.json"
    machine = {"schema": "thole/machine/1", "gpus": [{"uuid": f"GPU-{i}", "vendor": "nvidia", "accounts": [
        {"started": "2020-01-01T00:00:00Z", "peak_memory_mib": 60000}]} for i in range(2)]}
    file.write_text(json.dumps(machine))
    queue.env.update(THOLE_MACHINE=str(file), THOLE_BIND="none", FILE=str(file))
    notes = """import datetime, json, os
now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
machine = json.load(open(os.environ["FILE"]))
machine["gpus"][1]["accounts"].append({"started": now, "peak_memory_mib": 4321})
json.dump(machine, open(os.environ["FILE"] + ".new", "w"))
os.replace(os.environ["FILE"] + ".new", os.environ["FILE"])"""
    job = queue.submit("-g", "2", "--", sys.executable, "-c", notes)
    queue("wait", job)
    [task] = queue.json("jobs", job, "--tasks")["tasks"]
    assert (task["state"], task["peak_gpu_memory_mib"]) == ("done", 4321)
    assert "; peak GPU memory 4.2 GiB" in queue("logs", job)


def test_of_several_gpus_the_one_with_the_largest_process_counts(tmp_path):
    machine = Machine(tmp_path, 2)
    machine.configure("gpus 2", "gpu * accounting 1")
    [task] = machine.ends(machine.submit("-g", "2", *shell(allocates(0, 900), allocates(1, 1200))))
    assert task["peak_gpu_memory_mib"] == 1200


def test_each_task_of_a_lane_has_its_own(machine):
    machine.configure("gpus 1", "gpu 0 accounting 1")
    job = machine.submit("-g", "1", "--array", "0-2", *shell(allocates(0, "$((3000 - 1000 * THOLE_TASK_INDEX))")))
    assert [task["peak_gpu_memory_mib"] for task in machine.ends(job)] == [3000, 2000, 1000]


@pytest.mark.parametrize("gpu, options", [
    ("gpu 0 accounting 0", []),                                          # nobody has turned it on
    ("gpu 0 rc nvmlDeviceGetAccountingMode 3", []),                      # a board without it
    ("gpu 0 accounting 1", ["--per-gpu", "2"]),                          # processes on the GPU may be of another task
    ("gpu 0 accounting 1", ["--share", "--memory", "4G"]),               # … or of somebody else
])
def test_what_cannot_be_told_or_is_not_the_tasks_alone_is_not_known(machine, gpu, options):
    machine.configure("gpus 1", gpu)
    job = machine.submit("-g", "1", *options, *shell(allocates(0, 900)))
    [task] = machine.ends(job)
    assert task["state"] == "done" and task["peak_gpu_memory_mib"] is None
    assert "GPU memory" not in machine.footer(job)


def test_a_driver_that_hangs_delays_one_end_a_little_and_is_not_asked_again(machine):
    machine.configure("gpus 1", "gpu 0 accounting 1", "hang nvmlDeviceGetAccountingStats")
    job = machine.submit("-g", "1", "--array", "0-3", *shell(allocates(0, 900)))
    tasks = machine.ends(job)
    assert [(task["state"], task["peak_gpu_memory_mib"]) for task in tasks] == [("done", None)] * 4
    begin, end = (datetime.datetime.fromisoformat(text) for text in (tasks[0]["started"], tasks[-1]["ended"]))
    assert (end - begin).total_seconds() < 6, "at most one of them waited 2 s for the driver"


def test_the_end_is_noted_before_the_driver_is_asked(machine):
    machine.configure("gpus 1", "gpu 0 accounting 1", "hang nvmlDeviceGetAccountingStats")
    inside = queue_inside.Queue(machine.folder)
    job = machine.submit("-g", "1", *shell(allocates(0, 900), "exit 3"))
    eventually(lambda: any(inside.noted_end(lane) == 3 for lane in range(4)), "a lane has noted the end")
    assert inside.kill(inside.lanes()) == 1, "it waits for the driver"
    [task] = machine.ends(job)
    assert (task["state"], task["exit_code"], task["peak_gpu_memory_mib"]) == ("failed", 3, None)
