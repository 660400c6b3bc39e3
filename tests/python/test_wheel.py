# ctest: timeout 900
"""The wheel: what is in it, that it runs from wherever it is installed, and that pip makes the same one."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import tholepin

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("THOLE_BUILD_DIR", ROOT / "build"))
INSTALLED = pathlib.Path(tholepin.__file__).parent / "_lib"

pytestmark = pytest.mark.skipif(
    not INSTALLED.is_dir(), reason="tholepin is not installed from a wheel here, but run from the source"
)


@pytest.fixture(scope="module")
def wheel():
    (path,) = (BUILD / "dist").glob("*.whl")
    return path


def test_one_file_serves_every_python_and_says_which_glibc_it_needs(wheel):
    assert re.fullmatch(r"tholepin-[\d.]+-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name for name in names if name.endswith("/METADATA"))
        assert "Requires-Dist" not in archive.read(info).decode()
    assert {
        "tholepin/py.typed",
        "tholepin/_lib/bin/thole",
        "tholepin/_lib/lib/libthole.so.0",
        "tholepin/_lib/lib/thole/libhwloc.so.15",
    } <= names
    assert not [name for name in names if "__pycache__" in name]


def test_the_binaries_need_nothing_but_glibc():
    objdump = shutil.which("objdump")
    if not objdump:
        pytest.skip("objdump is not installed")
    for name in ("bin/thole", "lib/libthole.so.0"):
        told = subprocess.run([objdump, "-p", INSTALLED / name], stdout=subprocess.PIPE, check=True, text=True).stdout
        needed = re.findall(r"NEEDED +(\S+)", told)
        assert [one for one in needed if not re.match(r"(libc|libm|ld-linux.*)\.so", one)] == []


def test_the_command_is_the_bundled_program():
    command = pathlib.Path(sys.executable).with_name("thole")
    for line in ([command], [sys.executable, "-m", "tholepin"]):
        done = subprocess.run([*line, "--version"], stdout=subprocess.PIPE, check=True, text=True)
        assert tholepin.__version__ in done.stdout
    done = subprocess.run(
        [command, "run", "-g", "2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], stdout=subprocess.PIPE, check=True, text=True
    )
    assert done.stdout == "0,1\n"


def test_it_runs_from_any_place(wheel, tmp_path):
    place = tmp_path / "a place with blanks"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--target", place, wheel]
    if subprocess.run([*pip, "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no pip here")
    subprocess.run(pip, check=True)
    code = "import tholepin; print(tholepin.__file__, len(tholepin.claim(2).gpus), tholepin.topo()[:0] + 'drawn')"
    environment = {**os.environ, "PYTHONPATH": str(place), "PATH": "/usr/bin:/bin"}
    environment.pop("THOLE_LIBRARY", None)
    environment.pop("THOLE_PROGRAM", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True, text=True, cwd="/")
    assert done.stdout == f"{place}/tholepin/__init__.py 2 drawn\n"


def test_pip_makes_the_same_wheel_without_a_network(wheel, tmp_path):
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-index",
        "--no-deps",
        "-w",
        tmp_path,
        f"--config-settings=built={BUILD}",
        ROOT,
    ]
    if subprocess.run(
        [sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode:
        pytest.skip("no pip here")
    subprocess.run(pip, check=True)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.fixture
def backend(monkeypatch, tmp_path):
    """wheel_backend for a checkout that is a folder of this test; what it would run is in `ran`."""
    spec = importlib.util.spec_from_file_location("wheel_backend", ROOT / "packaging/wheel/wheel_backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ran = []
    monkeypatch.setattr(module, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(module, "run", lambda *words: module.ran.append(words))
    monkeypatch.delenv("THOLE_BUILD", raising=False)
    for name in ("README.md", "LICENSE"):
        (tmp_path / "checkout").mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "checkout" / name)
    return module


def built_for(folder, home):
    folder.mkdir(parents=True)
    (folder / "CMakeCache.txt").write_text(f"# a cache\nCMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
    return folder


@pytest.mark.parametrize("elsewhere", ["somewhere", "gone"])
def test_a_copied_checkout_builds_its_own_sources(backend, tmp_path, monkeypatch, elsewhere):
    (tmp_path / "somewhere").mkdir()
    theirs = built_for(backend.ROOT / "build", tmp_path / elsewhere)
    folder = backend.build()
    assert folder != theirs and folder.parent == backend.ROOT
    assert backend.ran[0][:5] == ("cmake", "-S", str(backend.ROOT), "-B", str(folder))
    assert not [words for words in backend.ran if str(theirs) in words]
    monkeypatch.setenv("THOLE_BUILD", str(theirs))
    with pytest.raises(SystemExit, match="other sources"):
        backend.build()


def test_what_is_built_already_is_taken_also_by_another_name_of_the_checkout(backend, tmp_path):
    (tmp_path / "link").symlink_to(backend.ROOT)
    ours = built_for(backend.ROOT / "build", tmp_path / "link")
    assert backend.build() == ours
    assert [words[:2] for words in backend.ran] == [("cmake", "--build")]


def test_libraries_that_are_named_are_taken_instead_of_this_systems(backend, tmp_path):
    for name in ("checkout/python/tholepin/__init__.py", "checkout/machines/one.json", "built/thole", "built/libthole.so.0",
                 "named/lib/thole/libhwloc.so.15", "named/share/licences/libhwloc15"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    backend.stage(tmp_path / "built", tmp_path / "named", tmp_path / "tree")
    tree = tmp_path / "tree/tholepin/_lib"
    assert sorted(file.name for file in tree.rglob("*") if file.is_file()) == [
        "libhwloc.so.15", "libhwloc15", "libthole.so.0", "one.json", "thole"
    ]
    assert (tree / "lib/thole/libhwloc.so.15").read_text() == "named/lib/thole/libhwloc.so.15"
    assert not [words for words in backend.ran if "bundle-hwloc" in words[0]]


def test_pip_learns_the_name_without_building(backend, wheel, tmp_path):
    name = backend.prepare_metadata_for_build_wheel(tmp_path)
    assert backend.ran == [] and name == wheel.name.split("-py3")[0] + ".dist-info"
    with zipfile.ZipFile(wheel) as archive:
        assert (tmp_path / name / "METADATA").read_bytes() == archive.read(f"{name}/METADATA")


def test_every_supported_python_takes_it(wheel, tmp_path):
    """Those that are here: pyenv's, and the distribution's."""
    candidates = [
        *pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"),
        *pathlib.Path("/usr/bin").glob("python3.[0-9]*"),
    ]
    tried = {}
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for binary in (tmp_path / "tholepin/_lib").rglob("*"):
        binary.chmod(0o755)  # zipfile forgets modes
    for python in candidates:
        told = subprocess.run(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], stdout=subprocess.PIPE, text=True
        )
        version = told.stdout.strip()
        if told.returncode or not re.fullmatch(r"3\.\d+", version) or int(version[2:]) < 9 or version in tried:
            continue
        code = ("import tholepin; print(len(tholepin.claim(2).gpus), [tholepin.gpus, tholepin.plan, tholepin.submit, "
                "tholepin.Error] and 'ok')")
        done = subprocess.run(
            [python, "-S", "-W", "error", "-c", code],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        tried[version] = done.stdout
    assert tried and set(tried.values()) == {"2 ok\n"}, tried
