#!/usr/bin/env python3
"""Each of our headers includes those of ours that it needs. usage: headers.py SOURCE_DIR COMPILER FLAG...

How this works: all headers are compiled one after the other, in a few orders. In each a header comes after those that it
includes and before as many others as can be: one that it needs and does not include is not there yet, and the compiler says so.
For most pairs of a header and another that it does not include there is such an order; the rest is seen by whoever builds
with THOLE_UNITY=OFF (the preset dev), where each source compiles its own header first. Compiling each header alone costs four
times as much: THOLE_HEADERS_ALONE=1 does. includes.py looks after the headers of the C++ library."""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


def graph(root):
    """Each header, and those of ours that it includes, itself or by way of others."""
    folders = [root / name for name in ("src", "include", "tests", "tests/system")]
    direct = {}
    for header in sorted({path for name in ("include", "src", "tests") for path in (root / name).rglob("*.hpp")}):
        paths = [folder / name for name in INCLUDE.findall(header.read_text()) for folder in (header.parent, *folders)]
        direct[header] = sorted({path.resolve() for path in paths if path.suffix == ".hpp" and path.is_file()})
    reached = {}

    def reach(header):
        if header not in reached:
            reached[header] = set()
            for each in direct[header]:
                reached[header] |= {each} | reach(each)
        return reached[header]

    for header in direct:
        reach(header)
    return direct, reached


def order(direct, rank):
    """The headers, each after those that it includes, otherwise by rank."""
    done, listed = set(), []

    def add(header):
        if header not in done:
            done.add(header)
            for each in sorted(direct[header], key=rank.get):
                add(each)
            listed.append(header)

    for header in sorted(direct, key=rank.get):
        add(header)
    return listed


def orders(direct, reached, count):
    """So many, each beginning with the headers that have stood before the fewest of those that they do not include."""
    missing = {(header, other) for header in direct for other in direct if other != header and other not in reached[header]}
    pairs = len(missing)
    chosen = []
    for _ in range(count):
        late = collections.Counter(header for header, other in missing)
        early = collections.Counter(other for header, other in missing)
        chosen.append(order(direct, {header: early[header] - late[header] for header in direct}))
        index = {header: i for i, header in enumerate(chosen[-1])}
        missing = {pair for pair in missing if index[pair[0]] > index[pair[1]]}
    return chosen, 1 - len(missing) / pairs


def main(root, compiler, *flags):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-w", *flags, "-"]

    def problems(listed):
        text = "".join(f'#include "{header}"\n' for header in listed)
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        return done.stderr[:4000] if done.returncode != 0 else ""

    direct, reached = graph(root)
    alone = os.environ.get("THOLE_HEADERS_ALONE") == "1"
    chosen, seen = ([[header] for header in direct], 1) if alone else orders(direct, reached, 4)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(filter(None, pool.map(problems, chosen)))
    print("\n".join(found) or f"every header includes what it needs of the others ({seen:.1%} of all pairs)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]))
