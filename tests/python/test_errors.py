"""Errors carry their reason as data, across processes too."""
import copy
import pickle

import pytest

import tholepin

ERRORS = [
    tholepin.Error,
    tholepin.NoneFree,
    tholepin.WaitTimeout,
    tholepin.NeverPossible,
    tholepin.TooLateError,
    tholepin.DriverError,
    tholepin.WorkerDied,
    tholepin.WorkerNotStarted,
]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_the_same_after_pickling(kind):
    error = kind("it failed", object="GPU 3", hint="thole doctor")
    error.__cause__ = ValueError("why")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind and isinstance(other, tholepin.Error)
        assert (str(other), other.message, other.code, other.object, other.hint, other.errno, other.args) == (
            str(error), "it failed", kind.default_code, "GPU 3", "thole doctor", 0, ("it failed",))


def test_errors_are_what_python_calls_them_too():
    with pytest.raises(TimeoutError) as caught:
        raise tholepin.WaitTimeout("late", errno=5, hint="wait longer")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.errno, again.hint, str(again)) == (5, "wait longer", str(caught.value))
    assert issubclass(tholepin.NeverPossible, ValueError) and issubclass(tholepin.Error, RuntimeError)


def test_the_text_says_what_on_what_why_and_the_fix():
    error = tholepin.Error("cannot open", object="/run/thole", errno=13, hint="sudo thole init", code=69)
    assert str(error) == "cannot open: /run/thole: Permission denied\n  sudo thole init"


def test_the_state_directory_is_named_with_its_errno(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("THOLE_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(tholepin.Error) as caught:
        tholepin.claim(1)
    assert caught.value.code == 69 and "file" in caught.value.object + caught.value.message


def test_a_library_that_is_not_there_is_named(monkeypatch):
    import subprocess
    import sys

    monkeypatch.setenv("THOLE_LIBRARY", "/nonesuch/libthole.so.0")
    done = subprocess.run([sys.executable, "-c", "import tholepin; tholepin.status()"], stderr=subprocess.PIPE, text=True)
    assert "/nonesuch/libthole.so.0" in done.stderr and "THOLE_LIBRARY" in done.stderr.splitlines()[-1]


def test_a_program_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("THOLE_PROGRAM", "/nonesuch/thole")
    with pytest.raises(tholepin.Error) as caught:
        tholepin.topo()
    assert caught.value.object == "/nonesuch/thole" and caught.value.errno == 2
