#!/usr/bin/env python3
"""Keeps docs/contributing-examples.md true: every diff on the page applies to the sources, what it touches compiles, and the
dependency table holds with it.
usage: contributing.py SOURCE_DIR COMPILER [FLAG...]
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = "docs/contributing-examples.md"


def section_diffs(page):
    """One text a section: its diffs belong together."""
    for section in re.split(r"(?m)^## ", page)[1:]:
        title = section.splitlines()[0]
        yield title, "".join(re.findall(r"(?ms)^```diff\n(.*?)^```$", section))


def problems(root, compiler, flags):
    looked = 0
    for title, diff in section_diffs((root / PAGE).read_text()):
        if not diff:
            continue
        looked += 1
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            for part in sorted({"src", "include", *re.findall(r"(?m)^(?:---|\+\+\+) [ab]/(\w+)/", diff)}):
                shutil.copytree(root / part, copy / part)
            applied = subprocess.run(["git", "apply", "-"], cwd=copy, input=diff, capture_output=True, text=True)
            if applied.returncode != 0:
                yield f"{PAGE}: {title}: {applied.stderr.strip()}"
                continue
            for name in re.findall(r"(?m)^\+\+\+ b/(\S+\.cpp)$", diff):
                compiled = subprocess.run(
                    [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Isrc", "-Iinclude", *flags, name],
                    cwd=copy, capture_output=True, text=True)
                if compiled.returncode != 0 or compiled.stderr:
                    yield f"{PAGE}: {title}: {name}: {compiled.stderr.strip()}"
            kept = subprocess.run([sys.executable, root / "tests/dependencies.py", copy], capture_output=True, text=True)
            if kept.returncode != 0:
                yield f"{PAGE}: {title}: {kept.stdout.strip()}"
    if looked == 0:
        yield f"{PAGE}: no diffs"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]))
    print("\n".join(found) or "the examples apply, and compile")
    sys.exit(bool(found))
