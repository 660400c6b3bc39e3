"""For programs that tests start: something tried with ever more room for descriptors."""
import gc
import os
import pathlib
import resource
import subprocess
import sys

import tholepin


def errors(tried):
    """The errors of tholepin that it raises with room for no descriptor, for one, two, ..., until it raises none."""
    tried()   # so that what is imported is there
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    seen = []
    for room in range(100):
        gc.collect()
        last = os.dup(0)
        os.close(last)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + room, most))
        try:
            tried()
        except tholepin.Error as error:
            seen.append(error)
        else:
            return seen
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    raise AssertionError(f"not with 100 descriptors either: {seen[-1]!r}")


def run(program):
    """A program that imports this, run to its end, which must be well; returns the lines that it prints."""
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, program], env=dict(os.environ, PYTHONPATH=path), capture_output=True, text=True,
                          timeout=200)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()
