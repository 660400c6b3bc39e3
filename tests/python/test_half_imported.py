"""The first use of the package in a signal handler that has interrupted an import of it."""
import subprocess
import sys

import pytest

BEGIN = "import sys, tholepin\nsys.path.insert(0, %r)\n" % __file__.rpartition("/")[0]


def interrupted(use):
    """A program whose first claim a handler interrupts at each place, in a forked child a place; the handler does this."""
    code = BEGIN + f"""
import os
import interrupting

def handler():
    {use}

for number in range(1, 9000, 29):
    child = os.fork()
    if not child:
        tracer = interrupting._Tracer(number, handler)
        sys.settrace(tracer)
        claim = tholepin.claim(1, wait=200)
        sys.settrace(None)
        made = tracer.handler is None
        os._exit(0 if claim.gpus and made else 7 if claim.gpus else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 7:
        break
    assert status == 0, number
print(number)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize(
    "use",
    [
        "tholepin.release()",
        "try: tholepin.gpus\n    except ImportError as error: assert 'import' in str(error)",
    ],
)
def test_a_handler_amid_the_first_import_is_told_what_it_cannot_use(use):
    done = interrupted(use)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


def test_release_before_any_claim_loads_nothing():
    code = "import sys, tholepin; tholepin.release(); assert 'tholepin.claims' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
