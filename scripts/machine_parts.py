"""Parts of machine files, for the scripts that write some: scripts/make-machines.py and tests/topologies/derived/make.py."""
import pathlib
import sys


def cpu_list(numbers):
    """[0, 1, 2, 5] -> "0-2,5", as thole itself prints it."""
    numbers, parts, i = sorted(numbers), [], 0
    while i < len(numbers):
        j = i
        while j + 1 < len(numbers) and numbers[j + 1] == numbers[j] + 1:
            j += 1
        parts.append(str(numbers[i]) if i == j else f"{numbers[i]}{'-' if j > i + 1 else ','}{numbers[j]}")
        i = j + 1
    return ",".join(parts)


def cpus(cores, nodes, packages, cores_per_l3, threads=2):
    """PUs numbered as Linux does: first threads of all cores, then the second ones; nodes and packages are even parts."""
    return [{"id": t * cores + c, "core": c, "l3": c // cores_per_l3, "numa": c * nodes // cores,
             "package": c * packages // cores} for t in range(threads) for c in range(cores)]


def near(machine, node):
    """What the platform names as near: the CPUs of the node, and those of the packages they belong to."""
    own = [c for c in machine["cpus"] if c["numa"] == node]
    packages = {c["package"] for c in own}
    return {"node": cpu_list(c["id"] for c in own),
            "package": cpu_list(c["id"] for c in machine["cpus"] if c["package"] in packages)}


def write_or_check(folder: pathlib.Path, machines, text):
    """Writes text(machine) of each to its file; with --check as the only word it says which are not so, and ends with 1."""
    check, stale = sys.argv[1:] == ["--check"], []
    if sys.argv[1:] and not check:
        sys.exit(f"usage: {pathlib.Path(sys.argv[0]).name} [--check]")
    folder.mkdir(exist_ok=True)
    for m in machines:
        path, wanted = folder / f"{m['name']}.json", text(m)
        if not check:
            path.write_text(wanted)
        elif not path.exists() or path.read_text() != wanted:
            stale.append(path.name)
    if stale:
        sys.exit(f"not what {sys.argv[0]} writes: " + ", ".join(stale))
