"""What scripts/quickstart and scripts/test do where something is missing: install it, or print the one line to run."""
import pathlib
import shutil
import subprocess

import pytest

PREPARE = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "prepare.bash"
TOOLS = ("bash", "sh", "env", "dirname", "id", "awk", "nproc", "grep", "cat", "python3", "gcc", "git", "pkg-config")


@pytest.fixture
def machine(tmp_path):
    """A PATH with the ordinary tools, a compiler that finds every header, and whatever a test adds."""
    path = tmp_path / "bin"
    path.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (path / tool).symlink_to(found)
    stub(path, "id", "echo ${FAKE_UID:-1000}")
    stub(path, "python3", "exit 0")
    stub(path, "pkg-config", "exit 0")
    for tool in ("g++", "cmake", "ninja", "vim", "zsh", "fish", "groff", "mypy"):
        stub(path, tool, "exit 0")
    return path


def stub(path, name, body):
    (path / name).unlink(missing_ok=True)
    (path / name).write_text(f"#!/bin/sh\n{body}\n")
    (path / name).chmod(0o755)


def prepare(machine, what="test", **environment):
    return subprocess.run(
        [machine / "bash", "-c", f'source "{PREPARE}"; install_missing {what}; echo ready'],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": str(machine), "LOG": str(machine / "log"), **environment},
    )


def log(machine):
    return (machine / "log").read_text() if (machine / "log").exists() else ""


def test_nothing_is_asked_for_where_all_is_there(machine):
    stub(machine, "apt-get", 'echo called >>"$LOG"')
    end = prepare(machine)
    assert (end.returncode, end.stdout, log(machine)) == (0, "ready\n", "")


def test_without_root_the_one_line_is_printed(machine):
    stub(machine, "apt-get", 'echo called >>"$LOG"')
    (machine / "cmake").unlink()
    (machine / "ninja").unlink()
    end = prepare(machine)
    assert end.returncode == 1
    assert "sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends cmake ninja-build'" in end.stderr
    assert log(machine) == ""


# The fake apt-get gives the machine what was missing, as the real one would.
GIVES = 'echo "$@" >>"$LOG"; case "$*" in *install*) printf "#!/bin/sh\\n" >"{path}/cmake"; chmod 755 "{path}/cmake";; esac'


@pytest.mark.skipif(not shutil.which("chmod"), reason="chmod is not here")
@pytest.mark.parametrize("how", ["root", "sudo"])
def test_what_is_missing_is_installed_as_root_or_by_sudo(machine, how):
    (machine / "chmod").symlink_to(shutil.which("chmod"))
    stub(machine, "apt-get", GIVES.format(path=machine))
    stub(machine, "sudo", '[ "$1" = -n ] && shift; exec "$@"')
    (machine / "true").symlink_to(shutil.which("true"))
    (machine / "cmake").unlink()
    end = prepare(machine, FAKE_UID="0" if how == "root" else "1000")
    assert end.returncode == 0, end.stderr
    assert end.stdout.endswith("ready\n")
    assert [line.split()[2] for line in log(machine).splitlines()] == ["update", "install"]
    assert log(machine).split()[-1] == "cmake"


def test_a_failed_installation_names_the_line(machine):
    stub(machine, "apt-get", "exit 100")
    (machine / "cmake").unlink()
    end = prepare(machine, FAKE_UID="0")
    assert end.returncode == 1
    assert "apt-get install" in end.stderr


def test_another_distribution_is_told_what_to_install(machine):
    (machine / "cmake").unlink()
    end = prepare(machine)
    assert end.returncode == 1
    assert "no Debian" in end.stderr and "cmake" in end.stderr


def test_a_missing_header_is_a_missing_package(machine):
    stub(machine, "g++", '[ "$(cat)" != "#include <nlohmann/json.hpp>" ]')
    end = prepare(machine, "build")
    assert "nlohmann-json3-dev" in end.stderr and "libfmt-dev" not in end.stderr


def test_quickstart_needs_no_test_packages(machine):
    stub(machine, "g++", 'case "$(cat)" in *gtest*|*rapidcheck*) exit 1;; esac')
    assert prepare(machine, "build").returncode == 0
    assert "libgtest-dev" in prepare(machine, "test").stderr
