#!/usr/bin/env python3
"""Keeps the dependency table: which module may include which, and where third-party headers may appear. And no two headers
define a type of one name in one namespace: no compiler tells, and whichever destructor the linker picks runs for both. And
nothing is called that glibc 2.28 lacks, and nothing made that the umask could close to its owner. What decides (model, plan,
app) takes no header of the system. A port has six functions at most. A GPU vendor is a row of one table and a folder; nobody
else knows it by name."""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": set(),
    "model": {"base"},
    "plan": {"base", "model"},
    "port": {"base", "model"},
    "host": {"base", "model", "port"},
    "app": {"base", "model", "plan", "port"},
    "wire": {"base", "model", "plan", "port", "host", "app"},
    "cli": {"base", "model", "app", "wire"},
    "capi": {"base", "model", "app", "wire"},
}
# A third-party header appears in one module, or one folder of it, only (prefix of the include -> folder).
THIRD_PARTY = {
    "fmt/": "base",
    "nlohmann/": "model",
    "toml": "wire",
    "hwloc": "host/topology",
    "pugixml": "host/import",
    "sqlite3": "host/store",
}
# Folders beside the core's way, by what may include them. host/gpu/file only recognises and refuses what is to be imported.
ASIDE = {"host/import": ("wire/import.cpp", "host/gpu/file/")}
# What a person reads goes through one door, which escapes what is not the program's own.
DOOR = "cli/output.cpp"
PRINTS = re.compile(r"\b(write_all|::write|dprintf)\((STDOUT_FILENO|STDERR_FILENO|[12]),|std::(cout|cerr)|fmt::print\(|"
                    r"\b(f?printf|f?puts|fwrite|perror)\(")
# A program that uses the library may have closed 0 to 2: what opens a descriptor below cli moves it above them.
OPENS = re.compile(
    r"(?<!above_standard\()((?<!\w)::(socket|epoll_create1?|eventfd|signalfd|timerfd_create|inotify_init1?|memfd_create|"
    r"accept4?|dup|open|openat|creat|mkostemp)\(|\bends\[[01]\]\)|SYS_pidfd_open|F_DUPFD(_CLOEXEC)?, *[0-2]\))"
)
# The wheel is to run with glibc 2.28 (scripts/wheel-manylinux). What is newer and at hand is a system call away, or ours.
NEWER = re.compile(
    r"\b(sig(abbrev|descr)_np|strerror(name|desc)_np|posix_spawn\w+_(addclosefrom|addf?chdir|addtcsetpgrp|setcgroup)_np|"
    r"closefrom|close_range|gettid|tgkill|getcpu|pidfd_(open|getfd|send_signal|spawnp?)|epoll_pwait2|pthread_\w+clock\w*|"
    r"sem_clockwait|twalk_r|arc4random\w*|strlc(py|at)|execveat|mount_setattr|fsopen|move_mount|process_(madvise|mrelease)|"
    r"_Fork)\("
)
# Who signals by a number that was read somewhere may hit another: these two have none but what is held, or a child.
NO_SIGNALS = ("app", "host/queue")
SIGNALS = re.compile(
    r"::(kill|killpg|tgkill|sigqueue|pthread_kill)\(|SYS_(pidfd_send_signal|kill|tkill|tgkill)|signal_process\("
)
SIGNALLER = "host/process/signal_process.hpp"
OPENS_ITSELF = ("base/fd.cpp", "base/standard.cpp", "host/process/spawn.cpp")  # the last: between fork and exec
# What the umask takes from its owner nobody can use afterwards; what a user names follows his umask.
MAKES = re.compile(r"::(mkdir|mkfifo|mknod)(at)?\(|O_CREAT|create_director")
MAKES_ITSELF = ("base/made.cpp", "host/process/job_cgroup.cpp")
# A vendor's folder in host/gpu: only the list of them and the composition root reach into it, and who is not about that vendor
# asks the table of vendors. Beside it a vendor is named where other programs' formats and devices are told apart.
MAY_REACH_INTO_A_VENDOR = ("host/gpu/vendors.cpp", "wire/")
NAMES_A_VENDOR = re.compile(r"\bVendor::\w+")
MAY_NAME_A_VENDOR = ("model/vendors.hpp", "model/machine.hpp", "host/gpu/", "host/import/", "host/topology/from_hwloc.cpp")
# What is decided does not hang on the kernel. A header of values may take the types of process and user numbers from it.
NO_SYSTEM = ("model", "plan", "app")
SYSTEM = re.compile(r".*\.h|csignal|csetjmp|filesystem|fstream|thread|mutex|condition_variable|future")
TYPES_ALONE = "sys/types.h"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:class|struct|enum class|enum) (\w+)\b(?!::)[^;]*$")


def types_of_one_name(root):
    seen = {}
    for path in sorted((root / "src").rglob("*.hpp")):
        namespace = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := NAMESPACE.match(line):
                namespace = match[1]
            if match := TYPE.match(line):
                where = f"{path.relative_to(root)}:{number}"
                first = seen.setdefault((namespace, match[1]), where)
                if first != where:
                    yield f"{where}: {namespace}::{match[1]} is also defined in {first}"


def vendor_folders(root):
    return [path.name for path in sorted((root / "src/host/gpu").iterdir()) if path.is_dir()]


# A port is one role: what takes it shows what it uses. Who plays several inherits them.
MOST_FUNCTIONS = 6
PORT = re.compile(r"^class (\w+)[^;]*\{")


def wide_ports(root):
    for path in sorted((root / "src/port").glob("*.hpp")):
        functions = {}
        for line in path.read_text().splitlines():
            if match := PORT.match(line):
                name = match[1]
            if re.match(r"  virtual (?!~)", line):
                functions[name] = functions.get(name, 0) + 1
        for name, count in functions.items():
            if count > MOST_FUNCTIONS:
                yield f"{path.relative_to(root)}: {name} has {count} functions, at most {MOST_FUNCTIONS}: it is several ports"


def problems(root):
    yield from types_of_one_name(root)
    yield from wide_ports(root)
    folders = vendor_folders(root)
    table = (root / "src/model/vendors.hpp").read_text()
    rows = set(re.findall(r'\.name = "(\w+)"', table)) | {"file"}  # the last: machine files
    for name in sorted(rows ^ set(folders)):
        yield f"{name}: a folder in src/host/gpu or a row in src/model/vendors.hpp, and not both"
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".hpp", ".cpp", ".h", ".c"):
            continue
        parts = path.relative_to(root / "src").parts
        module = parts[0]
        if module not in MAY_INCLUDE:
            yield f"{path}: no such module in the table: {module}"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if PRINTS.search(line) and "/".join(parts) != DOOR:
                yield f"{path.relative_to(root)}:{number}: only src/{DOOR} writes to stdout and stderr"
            if "/".join(parts).startswith(NO_SIGNALS) and SIGNALS.search(line):
                yield f"{path.relative_to(root)}:{number}: the queue signals by src/{SIGNALLER} alone"
            if module != "cli" and "/".join(parts) not in OPENS_ITSELF and OPENS.search(line) and "#include" not in line:
                yield f"{path.relative_to(root)}:{number}: a descriptor that may be 0 to 2: base/standard.hpp, above_standard()"
            if "/".join(parts) not in MAKES_ITSELF and MAKES.search(line.split("//")[0]):
                yield f"{path.relative_to(root)}:{number}: what thole makes has its owner's bits: base/made.hpp"
            if NAMES_A_VENDOR.search(line.split("//")[0]) and not "/".join(parts).startswith(MAY_NAME_A_VENDOR):
                yield f"{path.relative_to(root)}:{number}: asks for one vendor: let a column of src/model/vendors.hpp say it"
            if newer := NEWER.search(line):
                yield f"{path.relative_to(root)}:{number}: {newer[1]}() is newer than glibc 2.28"
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, header = match.groups()
            where = f"{path.relative_to(root)}:{number}"
            if quote == '"':
                target = header.split("/")[0]
                if target in MAY_INCLUDE and target != module and target not in MAY_INCLUDE[module]:
                    yield f"{where}: {module} may not include {target} ({header})"
                other = next((v for v in folders if header.startswith(f"host/gpu/{v}/")), None)
                if other and not "/".join(parts).startswith((f"host/gpu/{other}/", *MAY_REACH_INTO_A_VENDOR)):
                    yield f"{where}: only {', '.join(MAY_REACH_INTO_A_VENDOR)} may reach into host/gpu/{other} ({header})"
                for folder, includers in ASIDE.items():
                    if header.startswith(folder + "/") and not "/".join(parts).startswith((folder + "/", *includers)):
                        yield f"{where}: only {folder} and {', '.join(includers)} may include {header}"
            else:
                types = header == TYPES_ALONE and path.suffix == ".hpp"
                if module in NO_SYSTEM and SYSTEM.fullmatch(header) and not types:
                    yield f"{where}: {module} does without the system (<{header}>)"
                for prefix, owner in THIRD_PARTY.items():
                    if header.startswith(prefix) and not "/".join(parts).startswith(owner + "/"):
                        yield f"{where}: <{header}> belongs in {owner} only"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "the dependency table holds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
