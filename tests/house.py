#!/usr/bin/env python3
"""Keeps four rules of the house: no line of code over 128 columns, no test that fails by what others do on the machine, no
promise of docs/security.md that names a test which is not there, and no name that two sources of a module have each for
themselves: several go through the compiler as one (THOLE_UNITY), which ones changes with every new file.

A process of somebody else's may end while it is looked at (a glob of /proc looks into each and throws), and its name may be no
text.
"""
import pathlib
import re
import subprocess
import sys

COLUMNS = 128
CODE = {".py", ".cpp", ".hpp", ".c", ".h", ".cmake", ".bash", ".in"}
DATA = ("tests/golden/", "tests/recorded/", "tests/topologies/", "tests/python/compat/", "tests/fuzz/corpus/")
OF_STRANGERS = (
    (re.compile(r"""["']/proc["']\)\.r?glob\(|glob\(["']/proc/"""), "list /proc with os.listdir"),
    (re.compile(r"""/proc/\{[^}]*\}/(?:stat|status|comm|cmdline)["']\)\.read_text\(\)"""),
     'a process may have any bytes as its name: read_text(errors="replace")'),
)


def missing_tests(root):
    page = (root / "docs/security.md").read_text()
    python = "".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    units = "".join(path.read_text() for path in (root / "tests/unit").rglob("*.cpp"))
    named = re.findall(r"`(test_\w+|system\.\w+|[A-Z]\w+\.[A-Z]\w+)`", page)
    for name in named:
        suite, _, test = name.partition(".")
        there = (root / f"tests/system/test_{test}.py").exists() if suite == "system" else \
            re.search(rf"TEST(?:_F|_P)?\({suite}, {test}\)", units) if test else f"def {name}(" in python
        if not there:
            yield f"docs/security.md: there is no test {name}"
    if len(named) < 40:
        yield f"docs/security.md names only {len(named)} tests"


CONSTANT = re.compile(r"(?:inline )?constexpr [\w:<>,* ]+?\b\w+(?:\[\w*\])* ?[={]")
TYPE = re.compile(r"^(?:struct|class|enum(?: class)?) (\w+)(?: final)?(?: : ?[^;{]*)? ?\{", re.M)
SPACE = re.compile(r"^namespace (thole[\w:]*) \{", re.M)
FUNCTION = re.compile(r"(?!return|using|template|static_assert|namespace|else)[A-Za-z_][\w:<>,&*\[\] ]* [&*]?(\w+)\(([^()]*)\)")


def own_names(text):
    """What unnamed namespaces of this source have at their outermost, as the house writes them: without indentation."""
    inside = False
    for line in text.splitlines():
        if line == "namespace {":
            inside = True
        elif line == "}  // namespace" or line == "}":
            inside = inside and line == "}"
        elif inside and line[:1] not in ("", " ", "/", "#", "}", ")"):
            if CONSTANT.match(line):
                yield from re.findall(r"(?<!:)\b(\w+)(?:\[\w*\])* ?(?:=(?!=)|\{)", line.partition("(")[0])
            elif found := TYPE.match(line):
                yield found[1]
            elif found := FUNCTION.match(line):
                types = [re.sub(r"\s*\b\w+( = .*)?$", "", word.strip()) for word in found[2].split(",") if word.strip()]
                yield f"{found[1]}({', '.join(types)})"


def names_twice(root):
    looked = 0
    for module in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        texts = {path: path.read_text() for path in sorted(module.rglob("*.[ch]pp"))}
        spaces = {path: found[1] for path, text in texts.items() if (found := SPACE.search(text))}
        seen = {(spaces[path], found[1]): path for path in spaces if path.suffix == ".hpp"
                for found in TYPE.finditer(texts[path])}
        for source in (path for path in spaces if path.suffix == ".cpp"):
            for name in own_names(texts[source]):
                looked += 1
                other = seen.setdefault((spaces[source], name), source)
                if other not in (source, source.with_suffix(".hpp")):
                    yield f"{source.relative_to(root)}: {name} is a name of {other.relative_to(root)}, too"
    if looked < 1000:
        yield f"only {looked} names of sources were looked at"


def problems(root):
    yield from missing_tests(root)
    yield from names_twice(root)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    names = [name for name in listed.stdout.split("\0") if name] or [
        str(path.relative_to(root)) for top in ("src", "tests", "python", "bench", "scripts", "examples", "packaging")
        for path in (root / top).rglob("*")]
    looked = 0
    for name in sorted(names):
        path = root / name
        if path.suffix not in CODE or name.startswith(DATA) or not path.is_file():
            continue
        looked += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > COLUMNS:
                yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS}"
            for pattern, cure in OF_STRANGERS:
                if path.suffix == ".py" and pattern.search(line):
                    yield f"{name}:{number}: {cure}"
    if looked < 500:
        yield f"only {looked} files were looked at"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(bool(found))
