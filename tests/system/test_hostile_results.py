# ctest: timeout 900
"""Files that a user names to be written to, in a directory where everybody can write: what another can have put in their place
is refused, whatever the kernel's fs.protected_… say; what is one's own goes on working."""
import stat

import pytest

from hostile import SITE_GROUP, USERS, end, lab  # noqa: F401 (lab: a fixture)

pytestmark = pytest.mark.parametrize("lab", ["plain"], indirect=True)

WORDS = {
    "status file": ("run", "-g", "0", "--status-file", "{}", "true"),
    "joblog": ("map", "-g", "0", "--joblog", "{}", "true", ":::", "a"),
    "joblog to resume": ("map", "-g", "0", "--joblog", "{}", "--resume", "true", ":::", "a"),
    "joblog looked at": ("map", "-g", "0", "--joblog", "{}", "--resume", "--dry-run", "true", ":::", "a"),
    "capture": ("capture", "-o", "{}"),
    "picture": ("topo", "--svg", "{}"),
}
PLANTS = {
    "link": "ln -s {precious} {folder}/it",
    "link to nothing yet": "ln -s {home}/.new {folder}/it",
    "link above": "mkdir -m 777 {folder}/theirs; ln -s {precious} {folder}/theirs/log; ln -s {folder}/theirs {folder}/it",
    "file": "umask 0; echo theirs > {folder}/it",
    "fifo": "mkfifo -m 666 {folder}/it",
    "second name": "ln {precious} {folder}/it",
}


def result(lab, what, path, **more):  # noqa: F811
    return lab.thole("alice", *(word.format(path) for word in WORDS[what]), timeout=60, **more)


@pytest.mark.parametrize("folder, other", [("/tmp", "mallory"), ("/tmp/project", "bob")], ids=["everybody's", "a group's"])
@pytest.mark.parametrize("plant", PLANTS)
def test_what_another_can_have_put_in_the_place_of_a_result_is_refused(lab, plant, folder, other):  # noqa: F811
    lab.init()
    if folder != "/tmp":
        lab.run("root", "sh", "-ec", f"mkdir {folder}; chgrp {SITE_GROUP} {folder}; chmod 1770 {folder}", check=True)
    home = lab.folder / "home/alice"
    path = "/tmp/alices/precious" if plant == "second name" else f"{home}/precious"   # a link stays in its file system
    lab.run("alice", "sh", "-ec", f"mkdir -p /tmp/alices; echo mine > {path}", check=True)
    who = "root" if plant == "second name" else other   # as she can where fs.protected_hardlinks is 0
    lab.run(who, "sh", "-ec", PLANTS[plant].format(precious=path, home=home, folder=folder), check=True)
    name = f"{folder}/it/log" if plant == "link above" else f"{folder}/it"
    for what in WORDS:
        done = result(lab, what, name)
        said = " ".join(done.stderr.split())
        assert done.returncode == 69 and f": {name} others can write to {folder}, and one of them" in said, (what, said)
        assert lab.run("alice", "cat", path).stdout == "mine\n", what
        assert not (home / ".new").exists(), what
    log = lab.python("alice", "import sys; from tholepin._named_file import open_to_append; open_to_append(sys.argv[1])", name,
                     timeout=60)
    assert "PermissionError" in log.stderr and lab.run("alice", "cat", path).stdout == "mine\n", log.stderr
    if plant == "file":
        assert lab.run(other, "cat", name).stdout == "theirs\n"


@pytest.mark.parametrize("what", WORDS)
def test_what_is_ones_own_there_is_written_to(lab, what):  # noqa: F811
    lab.init()
    lab.run("alice", "sh", "-ec", "mkdir -m 1777 /tmp/own; ln -s own/log /tmp/it; ln -s /tmp/own /tmp/above", check=True)
    for name in ("/tmp/new", "/tmp/it", "/tmp/above/log", "/tmp/own/./../own//other"):
        for turn in range(2):                    # made, and found there
            done = result(lab, what, name)
            assert done.returncode == 0, (name, turn, done.stderr)
        there = lab.run("alice", "sh", "-c", f"stat -L -c '%u %s' {name}").stdout.split()
        if what != "joblog looked at":
            assert there[0] == str(USERS["alice"]) and int(there[1]) > 0, (name, there)
    assert lab.run("alice", "readlink", "/tmp/it", "/tmp/above").stdout.split() == ["own/log", "/tmp/own"]


@pytest.mark.parametrize("what", [what for what in WORDS if "to resume" not in what and "looked at" not in what])
def test_pipes_of_ones_own_and_standard_output_are_written_to(lab, what):  # noqa: F811
    lab.init()
    begins = {"joblog": "Seq", "picture": "<svg"}.get(what, "{")
    assert result(lab, what, "/dev/stdout").stdout.startswith(begins)
    words = " ".join(f"'{word}'" if word != "{}" else ">(cat >&3)" for word in WORDS[what])
    shown = lab.run("alice", "bash", "-c", f"exec 3>&1; {lab.program} {words} >/dev/null; wait")
    assert shown.stdout.startswith(begins), shown.stderr
    lab.run("alice", "mkfifo", "/tmp/pipe", check=True)
    with lab.start("alice", "sh", "-c", "exec 9<>/tmp/pipe; echo up; head -c 3 <&9; cat") as reader:
        assert reader.line() == "up"
        done = result(lab, what, "/tmp/pipe")
        assert done.returncode == 0, done.stderr
        assert reader.process.stdout.read(3).decode().startswith(begins[:3])
        end(reader)
    assert stat.S_ISFIFO(int(lab.run("alice", "stat", "-c", "%f", "/tmp/pipe").stdout, 16))
