"""A job whose GPUs cannot be had at all is asked for again later: what is said of it until then."""
import json
import pathlib
import re

import pytest

from queue_tools import Queue
from run_tools import eventually


@pytest.fixture
def queue(tmp_path):
    machine = tmp_path / "machine.json"
    made = Queue(tmp_path, str(machine))
    plain = json.loads(made("capture", env={"THOLE_MACHINE": "4xA100"}))
    plain["gpus"][0]["health"] = "lost"
    machine.write_text(json.dumps(plain))
    return made


def test_a_job_of_a_sick_gpu_does_not_start_next(queue):
    job = queue.submit("-q", "--on", "0", "true")
    waits = eventually(lambda: (w := queue.job(job)["waits"]) and w["kind"] == "again" and w, "it is put off")
    assert re.match(r"asked for again in \d+s: 1 GPU on GPU-[0-9a-f-]+ asked for.*; GPU 0: lost", waits["why"]), waits
    assert "asked for again in" in queue("jobs", job)
    assert "asked for again in" in queue("why", "job", job)
    assert "asked for again in" in queue.run("logs", job).stderr
    queue("cancel", job)


def test_what_is_wanting_stands_in_one_readable_line(queue):
    job = queue.submit("--hold", "--model", "A100", "true")
    machine = pathlib.Path(queue.machine)
    machine.write_text(machine.read_text().replace("A100", "H200"))
    queue("resume", job)
    said = f"job {job}: no GPU that would do is of this model: A100; here: NVIDIA H200-SXM4-80GB\n"
    log = queue.directory / "runner.log"
    eventually(lambda: log.exists() and said in log.read_text(), lambda: log.read_text())
    assert "\\x0a" not in log.read_text()
    queue("cancel", job)
