"""Files of a state directory of one's own that are gone, or that something else is in the place of: made anew, or the cure that
is told works there."""
import os
import re
import shutil
import subprocess

import pytest

import claim_box
from claim_box import thole

FILES = ("alloc", "queue", "who", "devices")
INSTEAD = {"directory": os.mkdir, "fifo": os.mkfifo, "link": lambda path: os.symlink("/nonexistent", path)}


@pytest.fixture(params=["named", "personal"])
def box(request, tmp_path):
    """And the state directory, in which somebody has claimed before."""
    with claim_box.made(tmp_path, "2xA100") as environment:
        if request.param == "personal":
            del environment["THOLE_STATE_DIR"]
        assert thole(environment, "run", "true").returncode == 0
        (directory,) = {path.parent for path in tmp_path.rglob("alloc")}
        yield environment, directory


@pytest.mark.parametrize("gone", [*((name,) for name in FILES), ("notes",), ("alloc", "who"), ("queue", "who")])
def test_what_was_deleted_is_made_anew(box, gone):
    environment, directory = box
    for name in gone:
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for words in (["run", "--no-wait", "true"], ["run", "--no-wait", "-g", "2", "true"], ["init"]):
        done = thole(environment, *words)
        assert done.returncode == 0, done.stderr
    assert all((directory / name).exists() for name in gone)


def test_where_who_is_deleted_under_a_claim_nobody_is_a_second_owner(box):
    environment, directory = box
    claim = thole(environment, "claim", "--on", "0").stdout.strip()
    (directory / "who").unlink()
    assert thole(environment, "run", "--no-wait", "--on", "0", "true").returncode == 75
    assert thole(environment, "run", "--no-wait", "--on", "1", "true").returncode == 0
    assert thole(environment, "release", claim).returncode == 0


@pytest.mark.parametrize("kind", INSTEAD)
@pytest.mark.parametrize("name", FILES)
def test_of_what_is_in_the_place_of_a_file_a_cure_is_told_that_works(box, name, kind):
    environment, directory = box
    (directory / name).unlink()
    INSTEAD[kind](directory / name)
    done = thole(environment, "run", "--no-wait", "true")
    assert done.returncode == 69 and f"{directory}/{name}" in done.stderr and "sudo" not in done.stderr, done.stderr
    cure = re.search(r"^  (rm .*); it is made anew$", done.stderr, re.M)
    assert cure, done.stderr
    subprocess.run(["sh", "-ec", cure[1]], check=True)
    assert thole(environment, "run", "--no-wait", "true").returncode == 0
