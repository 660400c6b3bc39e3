"""docs/tutorial.md: every line that begins with $ does what a reader expects: it ends with 0, in the order of the page,
and what it has two people type is typed by two users.
README.md: so does each of its six examples."""
# ctest: timeout 600
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from hostile import end, lab  # noqa: F401 (lab: a fixture)
from run_tools import THOLE, eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tutorial.md"


def lines():
    return re.findall(r"^    \$ (.*)$", PAGE.read_text(), re.M)


def test_the_page_can_be_typed_from_top_to_bottom(tmp_path):
    assert len(lines()) > 20
    script = []
    for number, line in enumerate(lines()):
        script.append(f"echo '=== {number}' >&2")
        ended = f'|| {{ echo "line {number} ended with $?" >&2; exit 9; }}'
        script.append(f"{line}\n" if line.endswith("&") else f"{line} {ended}")
    (tmp_path / "home").mkdir()
    (tmp_path / "build").symlink_to(pathlib.Path(THOLE).parent)      # as in a checkout: nothing is on the PATH yet
    env = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
           "TMPDIR": str(tmp_path), "THOLE_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=550,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-3000:]
    for said in ("I see GPU 0", "I see GPUs 0,1", "my turn", "this shell has GPU", "seed=2 on GPU", "its status was", "item b"):
        assert said in done.stdout, done.stdout[-3000:]
    assert "waiting, next in line" in done.stderr
    subprocess.run([THOLE, "drain"], env={**env, "THOLE_MACHINE": "8xA100"}, capture_output=True)


def of_two_people():
    section = PAGE.read_text().partition("## 6.")[2].partition("\n## ")[0]
    return re.findall(r"^    (.+)$", section, re.M), re.findall(r"`(thole run [^`]*)`", section)


def test_what_two_people_type_needs_no_gpu():
    commands = [shlex.split(line)[1:] for line in of_two_people()[1]]
    programs = [next(word for word in words if shutil.which(word)) for words in commands]
    assert len(commands) == 2 and set(programs) <= {"echo", "sleep"}, "what every machine has"


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_two_people_can_type_it(lab):
    lab.run("root", "mount", "-t", "tmpfs", "tmpfs", "/srv", check=True)
    (by_root, exports), (annas, bens) = of_two_people()
    path = {"PATH": f"{lab.folder}:/usr/bin:/bin"}

    def typed(user, line, how=lab.run):
        return how(user, "sh", "-c", line if user == "root" else f"{exports}\n{line}", **path)

    made = typed("root", 'sudo() { "$@"; }\n' + by_root)
    assert made.returncode == 0, made.stderr
    anna = typed("alice", annas, lab.start)
    eventually(lambda: typed("bob", "thole").stdout.count(" alice ") == 6, "anna has six")
    ben = typed("bob", bens, lab.start)
    ben.error_until("waiting")
    assert re.search("alice since .*, until ", ben.error_line()), "who has them until when"
    assert re.search(r"(?s) alice .*WAITING.* bob ", typed("alice", "thole").stdout), "it shows both"
    assert typed("bob", "thole release 0").returncode != 0 and anna.process.poll() is None
    assert typed("alice", "thole release").returncode == 0, "her own"
    ben.until("my turn")
    end(ben)
    anna.wait()
    anna.__exit__()


def test_the_six_examples_of_the_readme(tmp_path):
    section = (ROOT / "README.md").read_text().partition("## Six examples")[2].partition("\n\nFrom")[0]
    examples = re.findall(r"^    (.+)$", section, re.M)
    assert len(examples) == 6
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python", "make"):
        (tools / name).write_text('#!/bin/sh\necho "$(basename $0) $* on GPU $CUDA_VISIBLE_DEVICES"\n')
        (tools / name).chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{tools}:{pathlib.Path(THOLE).parent}:/usr/bin:/bin", "LANG": "C.UTF-8",
           "TMPDIR": str(tmp_path), "THOLE_STATE_DIR": str(tmp_path / "state"), "THOLE_MACHINE": "8xA100"}
    script = "set -e\n" + "\n".join(examples) + "\necho shell on $CUDA_VISIBLE_DEVICES\nthole wait 1\n"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    subprocess.run([THOLE, "drain"], env=env, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for said in ("8 free", "python train.py on GPU 0\n", "make all on GPU 0,1\n", "GPU 3: ", "shell on 0\n"):
        assert said in done.stdout, done.stdout[-3000:]
    assert "2 tasks" in done.stderr
