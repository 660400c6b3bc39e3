"""Standard input and output that others who have them, too, have made not to block."""
import fcntl
import os
import subprocess

import pytest

from run_tools import eventually, state_of, unread
from test_map import ECHO, box  # noqa: F401 (box: a fixture)


@pytest.mark.parametrize("words, text", [(["map", "--csv", *ECHO, "{x}"], ["x\na\n", "b\n"]), (["map", *ECHO], ["a\n", "b\n"]),
                                         (["plan", "--batch"], ['{"machine": "2xA100", ', '"ranks": 1}\n'])],
                         ids=["csv", "lines", "plan"])
def test_stdin_is_waited_for(box, words, text):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with subprocess.Popen([*box.words, *words], stdin=reading, stdout=subprocess.PIPE, env=box.environment) as program:
        os.close(reading)
        for piece in text:
            eventually(lambda: unread(writing) == 0 and state_of(program.pid) == "S", "it waits for more")
            os.write(writing, piece.encode())
        os.close(writing)
        out = program.communicate(timeout=60)[0]
    assert program.returncode == 0 and (out == b"a\nb\n" or b'"ranks":[{' in out), out


def test_stdout_gets_all(box):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    with subprocess.Popen([*box.words, "status", "--json"], stdout=writing, env=box.environment) as program:
        os.close(writing)
        eventually(lambda: program.poll() is not None or state_of(program.pid) == "S", "it waits, or has ended")
        with open(reading, "rb") as pipe:
            shown = pipe.read()
    assert program.returncode == 0 and shown.endswith(b"}\n") and len(shown) > 4096, shown[-80:]
