#!/usr/bin/env python3
"""Each header compiles alone: whoever includes it needs to include nothing before. usage: headers.py SOURCE_DIR COMPILER FLAG...

Where a source of the same name includes it first of all, the build has shown that already. The others are compiled here. What the C++
library and third parties declare is there for all of them, in one precompiled header, which halves the time; includes.py looks after
those headers."""
import pathlib
import re
import subprocess
import sys
import tempfile

COMMON = """
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <gtest/gtest.h>
#include <gmock/gmock.h>
"""


FIRST_INCLUDE = re.compile(r'^#include\s+["<]([^">]+)[">]', re.M)


def is_first_in_its_source(header):
    source = header.with_suffix(".cpp")
    first = FIRST_INCLUDE.search(source.read_text()) if source.exists() else None
    return bool(first) and str(header).endswith("/" + first[1])


def headers(root):
    for folder in ("include", "src", "tests"):
        yield from (header for header in sorted((root / folder).rglob("*.hpp")) if not is_first_in_its_source(header))


def main(root, compiler, *flags):
    compile_one = [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-w", *flags]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        common = pathlib.Path(folder, "common.hpp")
        common.write_text(COMMON)
        precompiled = str(common) + (".pch" if "clang" in compiler else ".gch")
        subprocess.run([compiler, "-std=c++20", "-x", "c++-header", *flags, "-o", precompiled, common], check=True)
        before = ["-include-pch", precompiled] if "clang" in compiler else ["-include", str(common)]
        for header in headers(root):
            done = subprocess.run([*compile_one, *before, "-"], input=f'#include "{header}"\n', capture_output=True, text=True)
            if done.returncode != 0:
                found.append(f"{header.relative_to(root)} does not compile alone:\n{done.stderr[:2000]}")
    print("\n".join(found) or "every header compiles alone")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]))
