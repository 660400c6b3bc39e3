"""Completion in the real shells, and the man pages."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from run_tools import BUILD, THOLE, Terminal

BASH = r"""
set -u
source <("$THOLE" completion bash)
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    COMP_WORDS=($1)
    [[ $1 == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _thole thole
    printf '%s\n' "${COMPREPLY[@]}"
}
cd "$HERE"
complete_line "$1"
"""


@pytest.fixture
def environment(tmp_path):
    """Variables under which a shell finds thole, a simulated machine, and a directory with one file."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "thole").symlink_to(THOLE)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "train.py").touch()
    return {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "THOLE": THOLE, "HERE": str(tmp_path / "here"),
            "THOLE_MACHINE": "mig-a100", "THOLE_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}


@pytest.fixture
def offered(environment):
    """What a shell offers at the end of a line."""
    def run(shell, line):
        if not shutil.which(shell):
            pytest.skip(f"{shell} is not installed")
        if shell == "bash":
            command = ["bash", "--norc", "-c", BASH, "bash", line]
        else:
            command = ["fish", "--no-config", "-c", f"cd $HERE; $THOLE completion fish | source; complete -C '{line}'"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
        assert done.returncode == 0, done.stderr
        return [row.split("\t")[0] for row in done.stdout.splitlines()]
    return run


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_verbs_options_choices_and_gpus(shell, offered):
    assert offered(shell, "thole sta") == ["status"]
    assert offered(shell, "thole run --trust") == ["--trust-claims"]
    assert sorted(offered(shell, "thole run --beside ")) == ["any", "mine", "none"]
    assert "0:1" in offered(shell, "thole status ")
    assert "dgx-h100" in offered(shell, "thole --machine dgx-")


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_kernels_that_thole_made(shell, offered, environment):
    kernels = pathlib.Path(environment["HOME"]) / ".local/share/jupyter/kernels"
    for name, metadata in (("thole-2gpu", '{"thole": {}}'), ("python3", "{}")):
        (kernels / name).mkdir(parents=True)
        (kernels / name / "kernel.json").write_text(f'{{"metadata": {metadata}}}')
    for set_here in ("JUPYTER_DATA_DIR", "XDG_DATA_HOME"):
        environment.pop(set_here, None)
    assert offered(shell, "thole jupyter ") == ["install", "list", "remove"]
    assert offered(shell, "thole jupyter remove ") == ["thole-2gpu"]
    assert "thole-2gpu" not in offered(shell, "thole jupyter list ")


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize("line", ["thole run -g 2 cat tr", "thole run -- cat tr"])
def test_after_the_options_the_commands_own_completion(shell, line, offered):
    assert offered(shell, line) == ["train.py"]


def test_bash_completes_programs_where_the_command_begins(offered):
    assert "mkdir" in offered("bash", "thole run mkdi")


@pytest.mark.parametrize("typed, completed", [
    ("thole run --trust", "--trust-claims"),
    ("thole run --pick ran", "random"),
    ("thole --machine dgx1", "dgx1v"),
    ("thole run -g 2 cat tr", "train.py"),
    ("thole run -- cat tr", "train.py"),
])
def test_zsh(typed, completed, environment):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    with Terminal(["zsh", "-f", "-i"], env={**environment, "PS1": "> "}) as shell:
        # What is typed while zsh starts can be lost with the line editor's first prompt: the answer shows that it reads.
        shell.press_until("echo re''ady\n", "ready")
        shell.send("cd $HERE; autoload -Uz compinit; compinit -u -D; source <(thole completion zsh); echo load''ed\n")
        shell.expect("loaded")
        shell.send(typed + "\t")
        shell.expect(re.escape(completed))


PAGES = sorted((BUILD / "man").glob("*.1"))


def test_there_is_a_page_for_each_command():
    names = {page.name for page in PAGES}
    assert {"thole.1", "thole-run.1", "thole-status.1", "thole-init.1"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_man_page_has_no_roff_mistakes(page):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True)
    assert done.stderr == "" and done.returncode == 0
    assert "SEE ALSO" in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_man_page_shows_no_marks_of_its_prose(page):
    text = page.read_text()
    assert "**" not in text and "`" not in text


def test_what_follows_the_options_is_none_of_the_last_one():
    lines = (BUILD / "man/thole-status.1").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Options of every command"))
    assert lines[at - 1] == ".PP"


def test_the_page_of_commands_is_up_to_date(tmp_path):
    root = pathlib.Path(__file__).parents[2]
    subprocess.run([BUILD / "man" / "thole_pages", "commands", root / "man" / "prose", tmp_path / "commands.md"], check=True)
    assert (tmp_path / "commands.md").read_text() == (
        root / "docs" / "commands.md"
    ).read_text(), "run: ninja thole_commands_page"
