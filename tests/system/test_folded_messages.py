# ctest: timeout 300
"""What a person is shown fits his terminal. Messages on stderr are one line for each sentence where it is none."""
import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from run_tools import THOLE, Terminal


def kept_environment(folder):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("THOLE_", "XDG_", "CUDA_"))}
    return {**kept, "HOME": str(folder), "THOLE_MACHINE": "4xA100", "THOLE_BIND": "none",
            "THOLE_PERSONAL_DIR": str(folder / "own")}


def on_terminal(columns, words, environment, stdout=subprocess.DEVNULL):
    """What a command shows on a terminal that is its stderr; stdout None: its stdout too."""
    screen, other_end = pty.openpty()
    with os.fdopen(screen, "rb", buffering=0) as shown:
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=other_end if stdout is None else stdout,
                                   stderr=other_end, env=environment)
        os.close(other_end)
        text = b""
        try:
            while data := shown.read(4096):
                text += data
        except OSError:              # the other end is closed
            pass
        process.wait(60)
    return text.decode().replace("\r\n", "\n")


def through_pipe(words, environment):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=120).stderr


def one_space(text):
    return " ".join(text.split())


SPACED = "a state directory with blanks in its name"

# {dir}: a folder of the test. Each says something on stderr, mostly more than 60 columns of it.
TOLD = {
    "a wrong option": ["run", "--gpuss", "3"],
    "a wrong verb": ["stauts-of-all-the-gpus-that-are-in-this-machine-and-of-all-others-that-are-near"],
    "a wrong value": ["run", "--wait", "until the others have all gone home in the evening", "--", "true"],
    "too many": ["run", "-g", "9", "--", "true"],
    "never": ["run", "--no-wait", "--memory", "900G", "--", "true"],
    "no such GPU": ["status", "17"],
    "what release takes": ["release"],
    "no such claim": ["release", "0123456789abcdef-0123456789abcdef"],
    "what extend takes": ["extend"],
    "no such job": ["logs", "4711"],
    "a command that is not there": ["run", "--", "{dir}/there/is/no/such/command/as/this/one/in/the/folder"],
    "a directory that is not there": ["--state-dir", "{dir}/not/there/at/all", "run", "--", "true"],
    "a file in the place of a directory": ["--state-dir", "{dir}/file", "run", "--", "true"],
    "a path with blanks": ["--state-dir", "{dir}/" + SPACED, "run", "--", "true"],
    "a lost lock": ["--state-dir", "{dir}/state", "run", "--no-wait", "--on", "0", "--", "true"],
    "a machine file that is not there": ["--machine", "{dir}/no-machine-of-this-name.json", "status"],
    "a queue that is not there": ["--queue-dir", "{dir}/file", "submit", "--", "true"],
    "a job file that is not there": ["submit", "--file", "{dir}/no-job-of-this-name.toml"],
    "an option of no command": ["map", "--items", "{dir}/no-items-of-this-name.txt", "--", "true", "{}"],
    "an option of another command": ["plan", "-g", "99"],
    "a topology that cannot be": ["topo", "--svg", "{dir}/not/there/at/all/picture.svg"],
    "an option that it has not": ["run", "--cpus", "100000", "--", "true"],
    "what is told of a claim": ["run", "-v", "--no-wait", "--", "true"],
    "a binding in words": ["run", "-v", "--bind", "cpus", "--no-wait", "--", "true"],
    "nothing is free": ["--state-dir", "{dir}/busy", "run", "--no-wait", "--", "true"],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / SPACED).mkdir(mode=0o777)
    os.chmod(tmp_path / SPACED, 0o777)
    environment = kept_environment(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    subprocess.run([THOLE, "--state-dir", tmp_path / "state", "run", "--no-wait", "--", "true"], env=environment, check=True,
                   capture_output=True)
    for node in (tmp_path / "state").glob("gpu.*"):
        node.unlink()
    return tmp_path


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("what", TOLD)
def test_a_message_fits_the_terminal_and_is_the_same_in_one_line_elsewhere(folder, what, columns):
    environment = kept_environment(folder)
    words = [THOLE, *(word.replace("{dir}", str(folder)) for word in TOLD[what])]
    holder = None
    if what == "nothing is free":
        (folder / "busy").mkdir(mode=0o700)
        words_of_holder = ("--state-dir", folder / "busy", "run", "-q", "-g4", "--", "sh", "-c", "echo up; exec cat")
        holder = subprocess.Popen([THOLE, *words_of_holder], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"up\n"
    try:
        shown, told = on_terminal(columns, words, environment), through_pipe(words, environment)
    finally:
        if holder:
            holder.communicate(timeout=60)
    assert shown.startswith("thole: "), shown
    for line in shown.splitlines():
        assert len(line) <= columns or " " not in line.strip() or SPACED in line, (columns, line)
        assert line.startswith(("thole: ", "  ")), line
    if what not in ("what is told of a claim", "a binding in words", "nothing is free"):   # ids, times and processes differ
        assert one_space(shown) == one_space(told)
        assert len(told.splitlines()) <= len(shown.splitlines())
    if str(folder) in told:
        assert str(folder) in shown, "a path was cut"


def test_a_path_with_blanks_is_not_cut(folder):
    path = folder / SPACED
    words = [THOLE, "--state-dir", str(path), "run", "--", "true"]
    assert str(path) in on_terminal(60, words, kept_environment(folder))


def test_a_long_sentence_is_one_line_where_a_script_reads(folder):
    path = folder / "there/is/no/such/command/as/this/one/in/the/folder/and/none/below"
    told = through_pipe([THOLE, "run", "--no-wait", "--", str(path)], kept_environment(folder))
    assert any(str(path) in line and line.startswith("thole: ") and len(line) > 80 for line in told.splitlines()), told


def test_a_very_narrow_terminal_gets_lines_of_forty_columns(folder):
    shown = on_terminal(10, [THOLE, "release"], kept_environment(folder))
    assert 20 < max(map(len, shown.splitlines())) <= 40, shown


VERBS = """status why run bind claim release extend topo plan doctor capture init map submit jobs logs wait cancel retry hold
           resume pause continue drain edit simulate jupyter compat""".split()
SCREENS = {"help": [["--help"], *([verb, "--help"] for verb in VERBS)],
           "looks": [["status"], ["topo"], ["topo", "--matrix"], ["why"], ["why", "0"], ["plan"],
                     ["run", "--dry-run", "--", "true"],
                     ["--machine", "mig-a100", "why"], ["--machine", "mixed-workstation", "why"],
                     ["--machine", "display", "run", "--dry-run", "--", "true"], ["--machine", "16xH100", "status"]]}


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("what", SCREENS)
def test_what_is_shown_fits_the_terminal(folder, what, columns):
    environment = {**kept_environment(folder), "TERM": "dumb"}
    for words in SCREENS[what]:
        shown = on_terminal(columns, [THOLE, *words], environment, stdout=None)
        assert shown
        for line in shown.splitlines():
            fixed = line.strip().startswith(("thole ", "sudo ", "eval ", "CUDA_", "THOLE_"))   # what is typed is not folded
            assert len(line) <= columns or fixed, (words, line)


def test_a_watch_on_a_low_screen_says_what_it_leaves_out(tmp_path):
    environment = {**kept_environment(tmp_path), "THOLE_MACHINE": "16xH100"}
    with Terminal([THOLE, "status", "--watch=1s"], env=environment) as terminal:
        terminal.resize(10, 80)
        terminal.expect(r"\(1\d more lines: the screen is too low\)")
        terminal.resize(40, 80)
        terminal.expect("16 free")
        terminal.send("q")
        assert terminal.wait() == 0
