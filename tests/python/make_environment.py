#!/usr/bin/env python3
"""Makes the wheel of what CMake has built and installs it into a fresh virtual environment, for the tests beside this file.

Usage: make_environment.py BUILD_DIR
The environment is BUILD_DIR/python; pytest comes from the interpreter that runs this (--system-site-packages). No network.
"""
import pathlib
import shutil
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    target, dist = build / "python", build / "dist"
    for old in (target, dist):
        shutil.rmtree(old, ignore_errors=True)
    backend = ROOT / "packaging/wheel/wheel_backend.py"
    made = subprocess.run(
        [sys.executable, backend, "--built", build, "--into", dist], check=True, stdout=subprocess.PIPE, text=True
    )
    wheel = made.stdout.strip()
    venv.EnvBuilder(system_site_packages=True, symlinks=True).create(target)
    pip = [sys.executable, "-m", "pip", "--python", target / "bin/python", "install", "--quiet", "--no-index", "--no-deps",
           "--force-reinstall", "--disable-pip-version-check", "--root-user-action", "ignore", wheel]
    subprocess.run(pip, check=True)
    print(wheel)


if __name__ == "__main__":
    main()
