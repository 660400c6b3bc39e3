"""A user who may have few processes: what cannot be done is refused in words, and leaves no claim behind. Whatever it is that
cannot be started, the hint and the exit status are the same."""
import os
import resource
import shutil
import subprocess
import tempfile

import pytest

from hostile import end, lab  # noqa: F401 (the fixture)
from run_tools import THOLE, eventually
from test_reader_that_waits import waits_for_its_reader

MEND = "raise the limit of processes (ulimit -u) or of memory (ulimit -v)"
COMMANDS = [["status"], ["why"], ["run", "--no-wait", "-g", "1", "--", "echo", "ran"], ["claim", "--no-wait"], ["release"],
            ["run", "--no-wait", "--on", "0", "--", "echo", "ran"]]


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_with_few_processes_a_claim_is_made_or_refused_in_words(lab, most):
    lab.init()
    bob = lab.hold("bob", "--on", "0")
    for words in COMMANDS:
        done = lab.run("alice", "prlimit", f"--nproc={most}", "--", lab.program, *words)
        said = done.stdout + done.stderr
        made = words[0] == "claim" and done.returncode == 0
        assert done.returncode in (0, 64, 69, 75), (words, done.returncode, said)
        if done.returncode == 69:
            assert MEND in " ".join(said.split()), (words, said)
        if done.returncode == 64:
            assert words == ["release"] and "which claim?" in said, said
        if "--on" in words:
            assert done.returncode != 0 and "ran" not in done.stdout, "bob has it"
        owners = [claim["user"] for claim in lab.claims()]
        assert owners.count("bob") == 1 and owners.count("alice") == made, (words, owners)
    end(bob)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_doctor_blames_no_gpu_for_a_want_of_processes(lab):
    lab.init()
    done = lab.run("alice", "prlimit", "--nproc=1", "--", lab.program, "doctor")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0 and MEND in said, done
    assert "problem GPUs 0,1,2,3: unreadable, as the driver could not be read" in said, said
    assert "dmesg" not in said, said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user without processes of his own")
def test_one_want_has_one_hint_and_one_status():
    user = 54_879
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:   # a test's own folder is closed to others
        os.chmod(folder, 0o755)
        program, own = shutil.copy(THOLE, folder), f"{folder}/own"
        os.mkdir(own, 0o700)
        os.chown(own, user, user)
        environment = {"PATH": os.environ["PATH"], "HOME": own, "THOLE_MACHINE": "1xA100", "THOLE_QUEUE_DIR": f"{own}/queue",
                       "THOLE_STATE_DIR": f"{own}/state", "THOLE_PERSONAL_DIR": f"{own}/personal"}
        for words, status in ((["run", "true"], 69), (["claim"], 69), (["map", "true", ":::", "1"], 69),
                              (["submit", "-g", "0", "--snapshot", "true"], 69), (["submit", "true"], 0)):   # stored: 0
            done = subprocess.run([program, *words], env=environment, cwd=own, capture_output=True, text=True, timeout=120,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)),
                                  user=user, group=user, extra_groups=[])
            assert done.returncode == status, (words, done.stderr)
            assert done.stderr.count("cannot start") == 1 and done.stderr.count(MEND) == 1, (words, done.stderr)
            assert f"\n  {MEND}\n" in done.stderr, (words, done.stderr)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user without processes of his own")
@pytest.mark.parametrize("most", range(2, 10))
def test_a_map_that_nobody_reads_goes_on_or_is_refused(most):
    """Who writes for it is there before its tasks are: then as many processes may be as before."""
    user = 54_880 + most
    writes = "import os\nfor _ in range(3000): os.write(1, b'x' * 999 + b'\\n')"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        program, own = shutil.copy(THOLE, folder), f"{folder}/own"
        os.mkdir(own, 0o700)
        os.chown(own, user, user)
        environment = {"PATH": "/usr/bin:/bin", "HOME": own, "THOLE_STATE_DIR": f"{own}/state",
                       "THOLE_PERSONAL_DIR": f"{own}/personal", "THOLE_MACHINE": "1xA100"}
        reading, writing = os.pipe()
        with subprocess.Popen([program, "map", "-q", "--line-buffer", "/usr/bin/python3", "-c", writes, ":::", "1"],
                              env=environment, cwd=own, stdout=writing, stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (most, most)),
                              user=user, group=user, extra_groups=[]) as process:
            full = eventually(lambda: process.poll() is not None or waits_for_its_reader(reading), "it writes, or is refused")
            os.close(writing)
            output = b"".join(iter(lambda: os.read(reading, 1 << 20), b""))
            os.close(reading)
            status, said = process.wait(60), process.stderr.read()
        assert full and (status, len(output)) in ((0, 3_000_000), (69, 0)), (status, len(output), said)
        assert status == 0 or MEND in " ".join(said.split()), said
        assert status == 0 or most < 9, "so many are enough"
