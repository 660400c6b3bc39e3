"""Files that a program names for what its processes write. (In directories of others: tests/system/test_hostile_results.py.)"""
import os
import subprocess
import sys

from tholepin._named_file import open_to_append

COMES_AND_GOES = """
import contextlib, os, sys
precious, name = sys.argv[1:]
print("up", flush=True)
while True:
    with contextlib.suppress(FileExistsError):
        os.link(precious, name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
"""


def test_a_second_name_that_comes_and_goes_is_none_of_ones_own(tmp_path):
    """Somebody who can give a file one (fs.protected_hardlinks) takes it away as soon as it is open."""
    precious, shared = tmp_path / "precious", tmp_path / "shared"
    precious.write_text("mine")
    shared.mkdir()
    shared.chmod(0o1777)
    with subprocess.Popen([sys.executable, "-c", COMES_AND_GOES, precious, shared / "log"], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"up\n"
        refused = 0
        try:
            while refused < 10_000:
                try:
                    log = open_to_append(shared / "log")
                except PermissionError:
                    refused += 1
                else:
                    assert os.fstat(log).st_ino != precious.stat().st_ino, refused
                    os.close(log)
        finally:
            other.kill()
