"""scripts/package: the .deb and the tar.gz, unpacked into empty roots and used from there."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

import pytest

from run_tools import BUILD, SANITIZED

SOURCE = pathlib.Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(SANITIZED, reason="a sanitized build needs its sanitizer's library"),
    pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is not here to make the .deb"),
]


def run(*command, **more):
    end = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    assert end.returncode == 0, f"{command}: status {end.returncode}\n{end.stdout}\n{end.stderr}"
    return end.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    into = tmp_path_factory.mktemp("dist")
    run(SOURCE / "scripts/package", "--built", BUILD, "--level", "1", "--into", into)
    return {path.suffix: path for path in into.iterdir()}


@pytest.fixture(scope="module")
def tree(packages):
    """In a home that others may enter: pytest's own folders are closed to them, by each pytest that starts."""
    with tempfile.TemporaryDirectory(prefix="home with a space ", dir="/var/tmp") as home:
        os.chmod(home, 0o755)
        with tarfile.open(packages[".gz"]) as archive:
            names = archive.getnames()
            archive.extractall(home)
        assert len({name.split("/")[0] for name in names}) == 1
        yield pathlib.Path(home) / names[0].split("/")[0]


@pytest.fixture(scope="module")
def root(packages, tmp_path_factory):
    where = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "--extract", packages[".deb"], where)
    return where


def needed(path):
    return set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", path)))


def test_the_tree_needs_nothing_but_glibc(tree):
    for path in (tree / "bin/thole", next(tree.glob("lib*/**/libthole.so"))):
        assert {name.split(".so")[0] for name in needed(path)} <= {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}


def test_the_tree_reads_the_machine_with_its_own_libhwloc(tree, tmp_path):
    """libhwloc and what it needs lie in the tree with their licences, and are what the probe loads."""
    libraries = {path.name for path in (tree / "lib/thole").iterdir()}
    assert {"libhwloc.so.15", "libudev.so.1"} <= libraries
    for library in libraries:
        others = needed(tree / "lib/thole" / library) - libraries
        assert {name.split(".so")[0] for name in others} <= {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}
    licences = {path.name for path in (tree / "share/doc/thole/licences").iterdir()}
    assert {"libhwloc15", "libudev1", "LGPL-2.1"} <= licences and len(licences) == len(libraries) + 1
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "THOLE_PERSONAL_DIR": str(tmp_path),
                   "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(tmp_path / "loaded")}
    captured = subprocess.run([tree / "bin/thole", "capture"], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(captured.stdout)["cpus"]
    loaded = "".join(path.read_text() for path in tmp_path.glob("loaded.*"))
    assert "lib/thole/libhwloc.so.15" in loaded


def test_the_package_depends_on_libhwloc(packages):
    assert "libhwloc15" in run("dpkg-deb", "--field", packages[".deb"], "Depends")


def test_the_tree_works_from_a_home_directory_without_root(tree):
    """As a user who owns nothing but a home directory, with nothing of ours in the environment."""
    become = {}
    home = tree.parent / "own"
    home.mkdir()
    if os.geteuid() == 0:
        become = {"user": 65534, "group": 65534, "extra_groups": []}
        os.chown(home, 65534, 65534)
    env = {"HOME": str(home), "PATH": f"{tree}/bin:/usr/bin:/bin", "THOLE_STATE_DIR": str(home / "state")}
    machine = json.loads(run("thole", "--machine", "dgx-a100", "status", "--json", env=env, cwd="/", **become))
    assert len(machine["gpus"]) == 8
    seen = run("thole", "--machine", "dgx-a100", "run", "-g", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", env=env,
               cwd="/", **become)
    assert len(seen.strip().split(",")) == 2


def test_the_deb_holds_a_usr_that_works_where_it_lies(root):
    env = {"PATH": "/usr/bin:/bin", "THOLE_STATE_DIR": str(root / "state")}
    seen = run(root / "usr/bin/thole", "--machine", "8xA100", "run", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", env=env)
    assert re.fullmatch(r"[0-7]\n", seen)
    assert (root / "usr/lib/systemd/system/run-thole.mount").is_file()
    assert "ExecStart=/usr/bin/thole init --force\n" in (root / "usr/lib/systemd/system/thole-init.service").read_text()
    assert (root / "usr/lib/systemd/system/multi-user.target.wants/thole-init.service").is_symlink()


def test_the_debs_sums_are_right(packages, root):
    control = packages[".deb"].parent / "control"
    run("dpkg-deb", "--control", packages[".deb"], control)
    run("md5sum", "--check", "--quiet", control / "md5sums", cwd=root)
    shutil.rmtree(control)


def test_dpkg_installs_and_removes_it(packages, tmp_path):
    """Into an empty root with a package database of its own."""
    if os.geteuid() != 0:
        pytest.skip("dpkg needs root, also for a scratch root")
    for folder in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("var/lib/dpkg/status", "var/lib/dpkg/available"):
        (tmp_path / file).touch()
    dpkg = ("dpkg", f"--root={tmp_path}", "--force-depends", "--force-script-chrootless", "--no-triggers", "--log=/dev/null")
    run(*dpkg, "--install", packages[".deb"])
    assert (tmp_path / "usr/bin/thole").is_file()
    run(*dpkg, "--remove", "thole")
    assert not (tmp_path / "usr/bin/thole").exists()


def test_lintian_finds_no_error(packages):
    if not shutil.which("lintian"):
        pytest.skip("lintian is not here")
    end = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", packages[".deb"]], capture_output=True, text=True)
    assert end.returncode == 0, end.stdout


def test_the_same_source_gives_the_same_packages(packages, tmp_path):
    run(SOURCE / "scripts/package", "--built", BUILD, "--level", "1", "--into", tmp_path)
    for path in packages.values():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
