"""cmake --install: an installed tree runs, and programs build against its library by pkg-config and by find_package."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import pytest

from run_tools import BUILD, SANITIZED

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def run(*command, env=None, **more):
    """Runs a command without the variables that could lead it back to the build folder."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("THOLE")}
    end = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**clean, **(env or {})}, **more)
    assert end.returncode == 0, f"{command}: status {end.returncode}\n{end.stdout}\n{end.stderr}"
    return end.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Installed once, then moved, so that nothing can depend on where it was installed to."""
    where = tmp_path_factory.mktemp("install")
    traced = (
        ("strace", "-f", "-e", "trace=openat,creat,rename,mkdir,unlink", "-o", where / "calls")
        if shutil.which("strace")
        else ()
    )
    run(*traced, "cmake", "--install", BUILD, "--prefix", where / "first")
    (where / "first").rename(where / "moved")
    return where / "moved"


@pytest.fixture
def library_dir(prefix):
    return next(prefix.glob("lib*/**/libthole.so")).parent


@pytest.fixture
def simulated(tmp_path):
    return {"THOLE_MACHINE": "dgx-a100", "THOLE_STATE_DIR": str(tmp_path / "state")}


def test_nothing_is_written_to_the_build_folder(prefix):
    """But for CMake's own list of what it installed."""
    calls = prefix.parent / "calls"
    if not calls.exists():
        pytest.skip("strace is not here")
    written = [
        line
        for line in calls.read_text().splitlines()
        if f'"{BUILD}/' in line and " = -1 " not in line and ("openat" not in line or "O_WRONLY" in line or "O_RDWR" in line)
    ]
    assert written and all("/install_manifest.txt" in line for line in written), written


def test_every_kind_of_file_is_there(prefix, library_dir):
    for path in (
        "bin/thole",
        "include/thole/thole.h",
        "include/thole/thole.hpp",
        "share/thole/machines/dgx-a100.json",
        "share/thole/python/tholepin/compat/start/sitecustomize.py",
        "share/man/man1/thole.1",
        "share/man/man1/thole-run.1",
        "share/bash-completion/completions/thole",
        "share/zsh/site-functions/_thole",
        "share/fish/vendor_completions.d/thole.fish",
        "lib/tmpfiles.d/thole.conf",
        "lib/udev/rules.d/70-thole.rules",
        "lib/systemd/system/thole-init.service",
        "lib/systemd/system/run-thole.mount",
        "share/doc/thole/README.md",
    ):
        assert (prefix / path).is_file(), path
    assert (library_dir / "pkgconfig/thole.pc").is_file()
    assert (library_dir / "cmake/thole/tholeConfig.cmake").is_file()


def test_the_moved_program_finds_its_simulated_machines(prefix, tmp_path):
    text = run(prefix / "bin/thole", "status", "--json", env={"THOLE_MACHINE": "dgx-a100", "HOME": str(tmp_path)}, cwd="/")
    assert len(json.loads(text)["gpus"]) == 8


def test_the_unit_runs_the_installed_program(prefix):
    unit = (prefix / "lib/systemd/system/thole-init.service").read_text()
    assert f"ExecStart={prefix.parent / 'first'}/bin/thole init" in unit
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here to check the unit")
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", prefix / "lib/systemd/system/thole-init.service"],
                             capture_output=True, text=True)
    assert "Unknown" not in checked.stderr and "Failed to parse" not in checked.stderr


def test_the_file_system_of_the_claims_comes_before_init_and_never_over_claims(prefix):
    """What `thole init` mounts without systemd is the same (src/host/claims/own_tmpfs.cpp)."""
    units = prefix / "lib/systemd/system"
    service, mount = (units / "thole-init.service").read_text(), (units / "run-thole.mount").read_text()
    assert "Wants=run-thole.mount\n" in service and re.search(r"^After=.*run-thole\.mount", service, re.M)
    assert "ConditionDirectoryNotEmpty=!/run/thole\n" in mount and "Where=/run/thole\n" in mount
    options = re.search(r"^Options=(.*)$", mount, re.M)[1]
    made = re.search(r'"(size=[^"]*)"', (SOURCE / "src/host/claims/own_tmpfs.cpp").read_text())[1]
    assert options == made + ",nosuid,nodev,noexec"
    ageing = (prefix / "lib/tmpfiles.d/thole.conf").read_text()
    assert "/run/thole " not in ageing
    assert "\nx /tmp/thole-*\n" in ageing


def test_the_library_shows_only_its_own_names(library_dir):
    listing = run("nm", "-D", "--defined-only", library_dir / "libthole.so")
    names = [line.split()[-1].split("@")[0] for line in listing.splitlines()]
    assert "thole_claim_gpus" in names
    assert [name for name in names if not name.lower().startswith("thole_")] == []


def check_example(program, simulated):
    if program.name.startswith("c_"):
        out = run(program, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", env=simulated)
        assert len(out.strip().split(",")) == 2
    else:
        out = run(program, env=simulated)
        workers, gpus = zip(*(line.split(" has ") for line in out.splitlines()))
        assert sorted(workers) == [f"worker {n}" for n in range(4)]
        assert len(set(gpus)) > 1, "they share out the GPUs: who has one keeps it while another asks"


@pytest.mark.skipif(SANITIZED, reason="a sanitized library wants a sanitized program around it")
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_an_example_builds_by_pkg_config_and_runs(prefix, library_dir, tmp_path, simulated, language):
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not here")
    flags = run("pkg-config", "--cflags", "--libs", "thole", env={"PKG_CONFIG_PATH": str(library_dir / "pkgconfig")}).split()
    program = tmp_path / f"{language}_example"
    compiler = ["cc", "-std=c11"] if language == "c" else ["c++", "-std=c++17", "-pthread"]
    run(*compiler, "-Wall", "-Werror", SOURCE / f"examples/claim.{language}", "-o", program, *flags)
    check_example(program, {**simulated, "LD_LIBRARY_PATH": str(library_dir)})


@pytest.mark.skipif(SANITIZED, reason="a sanitized library wants a sanitized program around it")
def test_the_examples_build_by_find_package_and_run(prefix, tmp_path, simulated):
    (tmp_path / "CMakeLists.txt").write_text(textwrap.dedent(f"""
        cmake_minimum_required(VERSION 3.22)
        project(user LANGUAGES C CXX)
        find_package(thole 0.1 REQUIRED)
        find_package(Threads REQUIRED)
        add_executable(c_example {SOURCE}/examples/claim.c)
        target_link_libraries(c_example thole::thole)
        add_executable(cpp_example {SOURCE}/examples/claim.cpp)
        target_compile_features(cpp_example PRIVATE cxx_std_17)
        target_link_libraries(cpp_example thole::thole Threads::Threads)
        """))
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "b")
    for name in ("c_example", "cpp_example"):
        check_example(tmp_path / "b" / name, simulated)


# What the installation and ldconfig write lies over the machine's own, for this process and what it starts.
AS_INSTALLED = """
mount -t tmpfs tmpfs "$1"
for over in /etc /usr/local /var/cache; do
  mkdir -p "$1/new$over" "$1/work$over"
  mount -t overlay -o "lowerdir=$over,upperdir=$1/new$over,workdir=$1/work$over" overlay "$over"
done
cd "$2"; ln -sfn "$3" build
sudo() { env PATH="$PATH:/usr/sbin:/sbin" "$@"; }
"""


@pytest.mark.skipif(SANITIZED, reason="a sanitized library wants a sanitized program around it")
def test_what_is_installed_as_the_page_says_is_found_by_a_program_of_the_library_s_page(simulated, tmp_path):
    """To /usr/local, where the loader finds nothing new until ldconfig has run."""
    steps = re.search(r"from source, to `/usr/local`:\n\n((?:    .*\n)+)", (SOURCE / "docs/install.md").read_text())[1]
    steps = [line for line in steps.splitlines() if "quickstart" not in line and "systemctl" not in line]
    [compiled] = re.findall(r"^    (cc .*)$", (SOURCE / "docs/library.md").read_text(), re.M)
    if "CMAKE_INSTALL_PREFIX:PATH=/usr/local\n" not in (BUILD / "CMakeCache.txt").read_text() or \
            not shutil.which("pkg-config") or list(pathlib.Path("/usr/local/lib").rglob("libthole*")):
        pytest.skip("no build for /usr/local, no pkg-config, or there is a libthole in /usr/local")
    own, here = tmp_path / "own", tmp_path / "here"
    for folder in (own, here):
        folder.mkdir()
    shutil.copy(SOURCE / "examples/claim.c", here)

    def typed(*lines):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("THOLE", "LD_", "PKG_CONFIG"))}
        script = ["sh", "-ec", "\n".join([AS_INSTALLED, *lines]), "sh", own, here, BUILD]
        return subprocess.run(["unshare", "-m", "--propagation", "private", *script], env={**clean, **simulated},
                              capture_output=True, text=True)
    if os.geteuid() != 0 or not shutil.which("unshare") or typed().returncode != 0:
        pytest.skip("here is no /usr/local of one's own to be had")
    done = typed(*steps, compiled, "./claim sh -c 'echo on $CUDA_VISIBLE_DEVICES'")
    assert done.returncode == 0 and done.stdout.endswith("\non 0,1\n"), done.stderr
    assert not list(pathlib.Path("/usr/local/lib").rglob("libthole*")), "the machine's own is as it was"


@pytest.mark.skipif(SANITIZED, reason="a sanitized library wants a sanitized program around it")
def test_the_moved_program_runs_programs_of_other_tools(prefix, simulated):
    pick = "import GPUtil; print(GPUtil.getFirstAvailable(), GPUtil.__file__)"
    said = run(
        prefix / "bin/thole", "compat", "--", "python3", "-c", pick, env={**simulated, "PATH": os.environ["PATH"]}, cwd="/"
    )
    assert said == f"[0] {prefix}/share/thole/python/tholepin/compat/modules/GPUtil/__init__.py\n"
