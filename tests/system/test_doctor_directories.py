"""`thole doctor` names every directory, and gives one cure for one that is wrong."""
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys

import pytest

from run_tools import THOLE, eventually, processes


@pytest.fixture
def thole(tmp_path):
    (tmp_path / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("THOLE_", "XDG_", "CUDA_"))}

    def run(*words, **more):
        environment = {
            **kept,
            "HOME": str(tmp_path / "home"),
            "THOLE_PERSONAL_DIR": str(tmp_path / "own"),
            "THOLE_MACHINE": "2xA100",
            **more,
        }
        return subprocess.run([THOLE, *words], env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    return run


def in_one_line(text):
    return "".join(text.split())


def test_every_directory_is_named(thole, tmp_path):
    queue = tmp_path / "home/.local/state/thole/queue" / f"{socket.gethostname()}+machine-2xA100"
    places = {"personal": tmp_path / "own", "caches": tmp_path / "own", "queue": queue, "logs": queue / "logs"}
    for there in (False, True):
        text = in_one_line(thole("doctor").stdout)
        told = json.loads(thole("doctor", "--json").stdout)["directories"]
        for name, path in places.items():
            assert told[name] == str(path)
            assert str(path) in text
        assert told["claims"] == (str(tmp_path / "own/machine-2xA100") if there else None)
        assert ("queuedirectory:" + str(queue) + ":noneyet" in text) == (not there)
        assert thole("submit", "-q", "--hold", "true").returncode == 0
        assert thole("run", "-q", "true").returncode == 0
    assert str(tmp_path / "own/machine-2xA100") in in_one_line(thole("doctor").stdout)


def test_a_directory_that_was_named_is_the_one_that_will_be_made(thole, tmp_path):
    shown = in_one_line(thole("doctor", THOLE_STATE_DIR=str(tmp_path / "new")).stdout)
    assert f"thefirstclaimmakes{tmp_path / 'new'}" in shown


def configuration(thole, **variables):
    told = json.loads(thole("doctor", "--json", **variables).stdout)["checks"]
    return [check["text"] for check in told if check["name"] == "configuration"]


@pytest.mark.parametrize("variable, meant", [
    ("THOLE_TIME", "--time"), ("THOLE_MEMORY", "--memory"), ("THOLE_GPU", "--gpus"), ("THOLE_SHARE_WITH", "--share-with"),
    ("THOLE_QUIET", "--quiet"), ("THOLE_MASHINE", "THOLE_MACHINE"), ("THOLE_WAITS", "THOLE_WAIT")])
def test_a_variable_that_looks_like_a_setting_and_is_none_is_named(thole, variable, meant):
    [text] = configuration(thole, **{variable: "1"})
    assert variable in text and "means nothing" in text and meant in text
    assert variable not in thole("run", "true", **{variable: "1"}).stderr


def test_variables_that_thole_gives_or_nobody_would_take_for_a_setting_are_not(thole):
    [text] = configuration(thole, THOLE_CLAIM="x", THOLE_GPUS="[]", THOLE_SUBMIT_DIR="/x", THOLE_JOB="1",
                           THOLE_JOB_STATE="done", THOLE_JOB_NAME="x", THOLE_QUESTIONNAIRE="1")
    assert "means nothing" not in text


def test_a_broken_configuration_is_a_finding(thole, tmp_path):
    (tmp_path / "thole").mkdir()
    (tmp_path / "thole/config.toml").write_text('[request]\nwiat = "1h"\n')
    broken = {"XDG_CONFIG_HOME": str(tmp_path), "THOLE_WAIT": "soon"}
    assert thole("status", **broken).returncode == 64
    doctor = thole("doctor", "--json", **broken)
    assert doctor.returncode == 0, doctor.stderr
    found = [check for check in json.loads(doctor.stdout)["checks"] if check["name"] == "configuration"]
    assert [check["result"] for check in found] == ["problem", "problem"]
    assert "config.toml:2: request.wiat" in found[0]["text"] and "request.wait" in found[0]["fix"]
    assert "THOLE_WAIT" in found[1]["text"]


def test_a_queue_that_moved_is_named_with_the_reason(thole, tmp_path):
    (tmp_path / "home").rmdir()
    (tmp_path / "home").touch()
    doctor = thole("doctor", "--json")
    told = json.loads(doctor.stdout)
    assert told["directories"]["queue"].startswith("/var/tmp/thole-")
    assert [check for check in told["checks"] if check["result"] == "warning" and "cannot be written" in check["text"]]


def has_open(path):
    """The processes that have this file open."""
    found = []
    for pid, *_ in processes():
        try:
            if any(os.readlink(f"/proc/{pid}/fd/{fd}") == str(path) for fd in os.listdir(f"/proc/{pid}/fd")):
                found.append(pid)
        except OSError:
            continue
    return found


def set_version(path):
    with sqlite3.connect(path) as file:
        [version] = file.execute("PRAGMA user_version").fetchone()
        file.execute(f"PRAGMA user_version = {version + 1}")
    file.close()


def set_version_in_the_log(path):
    """In a process that dies with the file open: nothing brings its log home."""
    code = "import os, sys; sys.path.insert(0, sys.argv[1]); from test_doctor_directories import set_version; " \
           "import sqlite3; kept = sqlite3.connect(sys.argv[2]); " \
           "kept.execute('SELECT count(*) FROM sqlite_schema').fetchone(); " \
           "set_version(sys.argv[2]); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(pathlib.Path(__file__).parent), str(path)], check=True, timeout=60)
    assert path.with_name("queue.db-wal").stat().st_size > 0


@pytest.mark.parametrize("harm", [set_version, set_version_in_the_log, lambda path: path.write_bytes(bytes(range(256)) * 64)])
def test_a_queues_file_that_every_command_refuses_is_a_problem(thole, tmp_path, harm):
    assert thole("submit", "-q", "--hold", "true").returncode == 0
    queue = tmp_path / "home/.local/state/thole/queue" / f"{socket.gethostname()}+machine-2xA100"
    eventually(lambda: not has_open(queue / "queue.db"), "nobody has the queue open")
    harm(queue / "queue.db")
    before = {path.name: path.read_bytes() for path in queue.iterdir() if path.is_file()}
    found = [check for check in json.loads(thole("doctor", "--json").stdout)["checks"] if check["result"] == "problem"]
    assert {path.name: path.read_bytes() for path in queue.iterdir() if path.is_file()} == before
    refused = thole("jobs")
    assert refused.returncode == 69
    [check] = [check for check in found if check["name"] == "queue directory"]
    said, cure = check["text"].split(":")[0], check["fix"]
    assert said in " ".join(refused.stderr.split()) and cure and in_one_line(cure) in in_one_line(refused.stderr)


def test_a_state_directory_open_to_all_has_one_cure(thole, tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o1777)
    shown = thole("doctor", THOLE_STATE_DIR=str(open_to_all)).stdout
    assert "\\x" not in shown and "sudo thole init" not in shown
    [check] = [check for check in json.loads(thole("doctor", "--json", THOLE_STATE_DIR=str(open_to_all)).stdout)["checks"]
               if check["result"] == "problem"]
    assert check["text"].endswith(f"its locks prove nothing: {open_to_all}") and "\n" not in check["text"]
    assert check["fix"].startswith("chmod 755 ")


def test_the_queue_of_an_earlier_host_name_is_told(thole, tmp_path):
    assert thole("submit", "-q", "--hold", "true").returncode == 0
    queues = tmp_path / "home/.local/state/thole/queue"
    earlier = queues / "earlier+machine-2xA100"
    (queues / f"{socket.gethostname()}+machine-2xA100").rename(earlier)
    empty = thole("jobs")
    assert empty.returncode == 0 and str(earlier) in empty.stderr
    thole("cancel", thole("submit", "-q", "--hold", "true").stdout.strip())
    assert str(earlier) not in thole("jobs").stderr, "there is something to see"
    assert json.loads(thole("--queue-dir", str(earlier), "jobs", "--json").stdout)["jobs"], "the advice helps"
    assert str(earlier) in in_one_line(thole("doctor").stdout)
    assert json.loads(thole("doctor", "--json").stdout)["directories"]["other_queues"] == [str(earlier)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for whom a part of a disk is reserved")
def test_root_is_told_what_others_meet_on_a_disk_of_which_only_his_reserve_is_left(thole, tmp_path):
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    script = """
        truncate -s 16M "$IMAGE" && mkfs.ext4 -q -F -m 40 "$IMAGE" && mount -o loop "$IMAGE" "$DISK" || exit 99
        "$THOLE" submit -q --hold true || exit 98
        head -c 8M /dev/urandom > "$DISK/fill"
        "$THOLE" doctor --json > "$DISK.reserve" || exit 97
        "$THOLE" submit -q --hold true || exit 96
        head -c 16M /dev/urandom > "$DISK/rest" 2> /dev/null
        "$THOLE" doctor --json > "$DISK.full" && exec "$THOLE" wait --timeout 0
    """
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "THOLE_MACHINE": "2xA100", "THOLE": THOLE, "DISK": str(disk),
                   "IMAGE": str(image), "THOLE_PERSONAL_DIR": str(tmp_path / "own"), "THOLE_STATE_DIR": str(disk / "state"),
                   "THOLE_QUEUE_DIR": str(disk / "queue")}
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    if "unshare" in done.stderr or done.returncode == 99:
        pytest.skip(f"cannot mount a disk with a reserve here: {done.stderr}")
    assert done.returncode == 124 and f"disk full: {disk}/queue" in done.stderr, (done.returncode, done.stderr)

    def told(when, name):
        checks = json.loads((tmp_path / f"disk.{when}").read_text())["checks"]
        return [(check["result"], check["text"]) for check in checks if check["name"] == name and check["result"] != "ok"]
    assert told("reserve", "queue directory") == [
        ("warning", "its disk is full for everybody but root, who writes into what is reserved for him")]
    assert told("reserve", "state directory") == [
        ("problem", f"the first claim cannot make it: the disk is full: {disk}/state")]   # others' first claim cannot
    assert told("full", "queue directory") == [("problem", f"the disk is full: {disk}/queue")]


@pytest.mark.parametrize("variable, named", [("THOLE_STATE_DIR", "state"), ("THOLE_PERSONAL_DIR", "")])
@pytest.mark.parametrize("tried", [False, True])
def test_a_full_disk_that_lets_no_first_claim_be_made_is_a_problem(thole, tmp_path, variable, named, tried):
    disk = tmp_path / "disk"
    disk.mkdir()
    script = """
        mount -t tmpfs -o size=64k,mode=0700 none "$DISK" || exit 99
        head -c 200000 /dev/zero > "$DISK/fill"
        if "$TRIED"; then "$THOLE" run -q true; echo "run ended with $?"; fi
        "$THOLE" doctor --json > "$DISK.full" && rm "$DISK/fill" && "$THOLE" doctor --json > "$DISK.room" || exit 98
        exec "$THOLE" run -q true
    """
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "THOLE_MACHINE": "2xA100", "THOLE": THOLE, "DISK": str(disk),
                   "THOLE_PERSONAL_DIR": str(tmp_path / "own"), "TRIED": "true" if tried else "false",
                   variable: str(disk / named)}
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr or done.returncode == 99:
        pytest.skip(f"cannot mount a small disk here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    if tried:
        assert done.stdout == "run ended with 69\n" and "No space left" in done.stderr
    def found(when, name):
        checks = json.loads((tmp_path / f"disk.{when}").read_text())["checks"]
        return next(check for check in checks if check["name"] == name)
    full, room = found("full", "state directory"), found("room", "state directory")
    place = disk / named if named else disk
    assert full["result"] == "problem" and full["fix"] == "free some space there", full
    assert full["text"].rstrip("/") == f"the first claim cannot make it: the disk is full: {place}", full
    assert room["result"] == "ok", room
    if variable == "THOLE_PERSONAL_DIR":
        personal = found("full", "personal directory")
        assert personal["result"] == "problem" and personal["text"] == f"the disk is full: {disk}", personal
        assert found("room", "personal directory")["result"] == "ok"


@pytest.mark.parametrize("variable, name, below, begins", [
    ("THOLE_STATE_DIR", "state directory", "/below/it", "the first claim cannot make it: "),
    ("THOLE_QUEUE_DIR", "queue directory", "/below/it", "cannot be made: "),
    ("THOLE_PERSONAL_DIR", "personal directory", "/below/it", "cannot be made: "),
    ("THOLE_PERSONAL_DIR", "personal directory", "", "cannot be written: ")])
def test_a_directory_that_cannot_be_made_or_written_is_a_problem(tmp_path, variable, name, below, begins):
    disk = tmp_path / "disk"
    disk.mkdir()
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "THOLE_MACHINE": "2xA100", "THOLE": THOLE, "DISK": str(disk),
                   "THOLE_STATE_DIR": str(tmp_path / "state"), "THOLE_PERSONAL_DIR": str(tmp_path / "own"),
                   "THOLE_QUEUE_DIR": str(tmp_path / "queue")}

    def check(options):
        """In a mount namespace of its own, where the disk is mounted so."""
        done = subprocess.run(["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} none "$DISK" || exit 99\n'
                               'exec "$THOLE" doctor --json'],
                              env={**environment, variable: f"{disk}{below}"}, capture_output=True, text=True, timeout=60)
        if "unshare" in done.stderr or done.returncode == 99:
            pytest.skip(f"cannot mount a disk here: {done.stderr}")
        return next(check for check in json.loads(done.stdout)["checks"] if check["name"] == name)

    wrong = check("ro,mode=0700")
    assert wrong["result"] == "problem" and variable in wrong["fix"], wrong
    assert wrong["text"] == f"{begins}{disk}{below}: {f'{disk}: ' if below else ''}Read-only file system", wrong
    assert check("mode=0700")["result"] == "ok"
