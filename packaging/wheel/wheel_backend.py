#!/usr/bin/env python3
"""Makes the wheel tholepin: thole's Python package, the library and the program in one file for every Python.

How this works. `pip` calls build_wheel() below (PEP 517); CMake's target `wheel` and the tests run this file as a program, with
what is built already. Either way the program and the library are built by CMake (or found in --built DIR), put below
tholepin/_lib as an installed tree (bin, lib, share), and zipped together with python/tholepin. Nothing is needed but Python,
CMake's own needs and a network only where pip wants one.

The platform's tag is honest: the least glibc that the binaries ask for.

Usage: wheel_backend.py [--built DIR] [--libraries DIR] [--into DIR]      prints the path of the wheel
"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"^project\(thole VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]

METADATA = f"""\
Metadata-Version: 2.1
Name: tholepin
Version: {VERSION}
Summary: See, claim and share the GPUs of a machine
Author: the thole developers
License: Apache-2.0
Requires-Python: >=3.9
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""

# The command `thole`. As a shell script it starts the program 20 ms sooner than an interpreter would. Packages may be elsewhere
# than beside it (pip install --user on some systems), then Python is asked.
COMMAND = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
for program in "$here"/../lib/python3*/site-packages/tholepin/_lib/bin/thole; do
  [ -x "$program" ] && exec "$program" "$@"
done
exec python3 -m tholepin "$@"
"""


def run(*command):
    """Its output goes where pip shows it."""
    subprocess.run(command, check=True, stdout=sys.stderr)


def is_of_this_tree(folder):
    """Whether CMake, if it was ever run there, was run for these sources: a copied or renamed checkout has another's build
    folder."""
    cache = folder / "CMakeCache.txt"
    if not cache.exists():
        return True
    home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(), re.M)
    return bool(home) and os.path.isdir(home[1]) and os.path.samefile(home[1], ROOT)


def build_folder():
    named = os.environ.get("THOLE_BUILD")
    if not named:
        if is_of_this_tree(ROOT / "build"):
            return ROOT / "build"
        own = ROOT / "build-wheel"  # nobody's but ours, and a copied one can go
        if not is_of_this_tree(own):
            shutil.rmtree(own)
        return own
    if not is_of_this_tree(pathlib.Path(named)):
        sys.exit(f"THOLE_BUILD={named} was made for other sources than {ROOT}")
    return pathlib.Path(named)


def build():
    """Builds what is missing and returns the folder."""
    folder = build_folder()
    if not (folder / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        run("cmake", "-S", str(ROOT), "-B", str(folder), *generator, "-DCMAKE_BUILD_TYPE=Release", "-DTHOLE_BUILD_TESTS=OFF",
            "-DTHOLE_BUILD_BENCH=OFF")
    run("cmake", "--build", str(folder), "--parallel", str(os.cpu_count() or 1), "--target", "thole", "libthole")
    return folder


def copy_binary(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o755)
    if shutil.which("strip"):
        run("strip", "--strip-unneeded", str(target))


def stage(built, libraries, into):
    """Lays out what the wheel holds; `libraries` has lib/thole and share/licences, else this system's libhwloc is taken."""
    shutil.copytree(ROOT / "python/tholepin", into / "tholepin", ignore=shutil.ignore_patterns("__pycache__", "_lib"))
    tree = into / "tholepin/_lib"
    copy_binary(built / "thole", tree / "bin/thole")
    copy_binary(built / "libthole.so.0", tree / "lib/libthole.so.0")
    shutil.copytree(
        ROOT / "machines", tree / "share/thole/machines", ignore=lambda _, names: [n for n in names if n.endswith(".md")]
    )
    if libraries:
        shutil.copytree(libraries, tree, dirs_exist_ok=True)
    else:
        run(str(ROOT / "packaging/bundle-hwloc"), str(tree / "lib/thole"), str(tree / "share/licences"))
    command = into / f"tholepin-{VERSION}.data/scripts/thole"
    command.parent.mkdir(parents=True)
    command.write_text(COMMAND)
    command.chmod(0o755)


def platform_tag(tree):
    """manylinux_X_Y for the newest glibc interface that anything in it asks for."""
    machine = platform.machine()
    newest = (2, 17)
    for file in tree.rglob("*"):
        if file.is_file() and file.read_bytes()[:4] == b"\x7fELF":
            for found in re.finditer(rb"GLIBC_(\d+)\.(\d+)\0", file.read_bytes()):
                newest = max(newest, (int(found[1]), int(found[2])))
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}"


def info_files(tag):
    return {
        "METADATA": METADATA + (ROOT / "README.md").read_text(),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: thole\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "top_level.txt": "tholepin\n",
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }


def write_wheel(tree, into):
    """Zips the tree; the same source gives the same file."""
    tag = f"py3-none-{platform_tag(tree)}"
    info = tree / f"tholepin-{VERSION}.dist-info"
    info.mkdir()
    for name, text in info_files(tag).items():
        (info / name).write_text(text)
    into.mkdir(parents=True, exist_ok=True)
    wheel = into / f"tholepin-{VERSION}-{tag}.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        for file in sorted(path for path in tree.rglob("*") if path.is_file()):
            name, data = file.relative_to(tree).as_posix(), file.read_bytes()
            add(name, data, 0o755 if os.access(file, os.X_OK) else 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        record.append(f"{info.name}/RECORD,,")
        add(f"{info.name}/RECORD", "\n".join(record) + "\n", 0o644)
    return wheel


def make(built, into, libraries=None):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        stage(built, libraries, tree)
        return write_wheel(tree, into)


# ---- PEP 517 ----


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it pip would build everything to learn the name."""
    info = pathlib.Path(metadata_directory) / f"tholepin-{VERSION}.dist-info"
    info.mkdir()
    for name, text in info_files("").items():
        if name != "WHEEL":  # which names the platform that is known when all is built
            (info / name).write_text(text)
    return info.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    built = (config_settings or {}).get("built")
    return make(pathlib.Path(built).resolve() if built else build(), pathlib.Path(wheel_directory)).name


def build_sdist(sdist_directory, config_settings=None):
    """What git tracks, under one folder."""
    name = f"tholepin-{VERSION}"
    archive = pathlib.Path(sdist_directory) / f"{name}.tar.gz"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for file in filter(None, listed.split("\0")):
            tar.add(ROOT / file, f"{name}/{file}")
        with tempfile.NamedTemporaryFile("w") as metadata:
            metadata.write(METADATA)
            metadata.flush()
            tar.add(metadata.name, f"{name}/PKG-INFO")
    return archive.name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", type=pathlib.Path, help="a folder where CMake has built thole; else it is built")
    parser.add_argument("--libraries", type=pathlib.Path, help="has lib/thole and share/licences; else this system's libhwloc")
    parser.add_argument("--into", type=pathlib.Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    print(make(arguments.built.resolve() if arguments.built else build(), arguments.into, arguments.libraries))


if __name__ == "__main__":
    main()
