#!/usr/bin/env python3
"""Makes the wheel of what CMake has built and installs it into a fresh virtual environment, for the tests beside this file.

Usage: make_environment.py BUILD_DIR
The environment is BUILD_DIR/python; pytest comes from the interpreter that runs this. No network.

Its modules are found by their folders alone, and not with --system-site-packages: that runs at each start what their .pth files
say (40 ms instead of 10 where one of them imports certifi), and the tests start thousands of Pythons.
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
    venv.EnvBuilder(symlinks=True).create(target)
    [packages] = target.glob("lib/python*/site-packages")
    around = [folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))]
    (packages / "around.pth").write_text("".join(f"{folder}\n" for folder in around))
    pip = [sys.executable, "-m", "pip", "--python", target / "bin/python", "install", "--quiet", "--no-index", "--no-deps",
           "--force-reinstall", "--disable-pip-version-check", "--root-user-action", "ignore", wheel]
    subprocess.run(pip, check=True)
    print(wheel)


if __name__ == "__main__":
    main()
