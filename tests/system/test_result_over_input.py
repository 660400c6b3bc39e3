"""A result is never written over the file that it is made from, whatever names lead to it."""
import os
import subprocess

import pytest

from run_tools import THOLE


def thole(folder, *words, **more):
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([THOLE, *words], capture_output=True, text=True, cwd=folder, timeout=60,
                          env={**os.environ, "THOLE_STATE_DIR": str(folder / "state")}, **more)


def refused(done, option):
    return done.returncode == 64 and f"{option} would write over what is read" in done.stderr


@pytest.mark.parametrize("log", ["items", "link", "hard"])
def test_items_of_map_are_not_its_log(tmp_path, log):
    items = tmp_path / "items"
    items.write_text("a\nb\n")
    (tmp_path / "link").symlink_to("items")
    os.link(items, tmp_path / "hard")
    words = ["--machine", "2xA100", "map", "--joblog", log]
    assert refused(thole(tmp_path, *words, "-a", "items", "echo"), "--joblog")
    with open(items) as stdin:
        assert refused(thole(tmp_path, *words, "echo", stdin=stdin), "--joblog")
    assert items.read_text() == "a\nb\n"


def test_a_log_beside_the_items_or_of_words_is_written(tmp_path):
    (tmp_path / "items").write_text("a\n")
    for more in (["-a", "items", "--joblog", "log", "echo"], ["--joblog", "/dev/null", "echo"],
                 ["--joblog", "log", "echo", ":::", "items"]):
        assert thole(tmp_path, "--machine", "2xA100", "map", *more).returncode == 0
    with open(tmp_path / "items") as unread:
        words = ["--machine", "2xA100", "map", "--joblog", "items", "echo", ":::", "x"]
        assert thole(tmp_path, *words, stdin=unread).returncode == 0


@pytest.mark.parametrize("option, words", [("--joblog", ["map", "--joblog", "two.json", "echo", ":::", "a"]),
                                           ("--status-file", ["run", "--status-file", "two.json", "true"]),
                                           ("--svg", ["topo", "--svg", "two.json"]),
                                           ("--output", ["capture", "-o", "two.json"])])
def test_a_machine_file_is_no_place_for_a_result(tmp_path, option, words):
    machine = tmp_path / "two.json"
    assert thole(tmp_path, "--machine", "2xA100", "capture", "-o", machine).returncode == 0
    before = machine.read_text()
    assert refused(thole(tmp_path, "--machine", "two.json", *words), option)
    assert machine.read_text() == before


def test_what_a_capture_is_made_from_is_not_where_it_goes(tmp_path):
    source = tmp_path / "node7.xml"
    source.write_text("<topology/>\n")
    assert refused(thole(tmp_path, "capture", "--from", "node7.xml", "-o", "./node7.xml"), "--output")
    with open(source) as stdin:
        assert refused(thole(tmp_path, "capture", "--from", "-", "-o", "node7.xml", stdin=stdin), "--output")
    assert source.read_text() == "<topology/>\n"
