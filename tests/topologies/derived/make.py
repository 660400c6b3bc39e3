#!/usr/bin/env python3
"""Writes the machine files beside it: machines of which no whole export was to be had, put together from what is known of them.
What was measured and what is assumed is said at each. `make.py --check` says whether the files are as this would write them.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "scripts"))

from machine_parts import cpus, near, write_or_check  # noqa: E402


def machine(name, cpu, numa):
    return {"schema": "thole/machine/1", "name": name, "cpus": cpu, "numa": [{"id": i, "memory_mib": m} for i, m in numa],
            "gpus": [], "nics": []}


def add_gpu(m, pci, node, model, **more):
    m["gpus"].append({"vendor": "nvidia", "model": model, "pci": pci, "numa": node, "near_cpus": near(m, node), "links": [], **more})


def matrix(name):
    """The cells between GPUs of a measured `nvidia-smi topo -m`, and each GPU's memory node."""
    rows = [line.split("\t") for line in (HERE.parent / "nvsmi" / name).read_text().splitlines()]
    gpus = [cell for cell in rows[0] if cell.startswith("GPU") and cell[3:].isdigit()]
    cells = [[cell.strip() for cell in row[1:1 + len(gpus)]] for row in rows[1:1 + len(gpus)]]
    width = len([cell for cell in rows[0] if cell]) - len([c for c in rows[0] if " " in c])
    return cells, [int(row[2 + width]) for row in rows[1:1 + len(gpus)]]


def link_all(m, cells, switched=False):
    for a, gpu in enumerate(m["gpus"]):
        for b, other in enumerate(m["gpus"]):
            cell = cells[a][b]
            if a == b:
                continue
            if cell.startswith("NV"):
                gpu["links"].append({"to": other["pci"], "kind": "nvswitch" if switched else "nvlink", "count": int(cell[2:])})
            else:
                gpu["links"].append({"to": other["pci"], "kind": cell.lower()})


def hgx_h200_snc2():
    """Measured: links, near CPUs and nodes of the GPUs (nvsmi/8xh200-snc2.txt: 3+1+3+1 GPUs on 4 nodes). Assumed: two packages of 48
    cores split in two, a cache for each half, CPU n and n+96 one core; PCI addresses and memory sizes chosen."""
    cells, nodes = matrix("8xh200-snc2.txt")
    m = machine("hgx-h200-snc2", cpus(96, 4, 2, 24), [(n, 515000) for n in range(4)])
    for i, node in enumerate(nodes):
        add_gpu(m, f"0000:{0x19 + 0x10 * i:02x}:00.0", node, "NVIDIA H200", memory_mib=143771)
    link_all(m, cells, switched=True)
    return m


def pcie_6_2():
    """Measured: links, near CPUs and nodes (nvsmi/8gpu-6plus2.txt). Assumed: two packages of 16 cores with one cache each, CPU n and
    n+32 one core; model, PCI addresses and memory sizes chosen."""
    cells, nodes = matrix("8gpu-6plus2.txt")
    m = machine("pcie-6-2", cpus(32, 2, 2, 16), [(n, 257000) for n in range(2)])
    for i, node in enumerate(nodes):
        add_gpu(m, f"0000:{[1, 0x21, 0x22, 0x41, 0x42, 0x61, 0x81, 0x82][i]:02x}:00.0", node, "NVIDIA RTX A6000", memory_mib=49140)
    link_all(m, cells)
    return m


def gb200_tray():
    """Documented (github.com/ishandhanani/srt-slurm issue 164): node 0 has CPUs 0-71 and GPUs 0 and 1, node 1 has CPUs 72-143 and GPUs
    2 and 3, NVLink 18 to the switches. CPU-less nodes as on other Grace machines (NVIDIA/mlperf-common issue 16: 8 for each GPU,
    of which one has memory); here they are listed, as by an importer that cannot know whose memory they are. Grace has no
    SMT and one L3 a package; addresses and sizes chosen."""
    m = machine("gb200-tray", cpus(144, 2, 2, 72, threads=1),
                [(0, 489000), (1, 489000)] + [(2 + n, 189000 if n % 8 == 0 else None) for n in range(32)])
    for i in range(4):
        add_gpu(m, f"{[8, 9, 0x18, 0x19][i]:04x}:01:00.0", i // 2, "NVIDIA GB200", memory_mib=189471, coherent=True)
    link_all(m, [["X" if a == b else "NV18" for b in range(4)] for a in range(4)], switched=True)
    for i, gpu in enumerate(m["gpus"]):
        for j, other in enumerate(m["gpus"]):
            if i != j:
                gpu["links"].append({"to": other["pci"], "kind": "node" if i // 2 == j // 2 else "sys"})
    for i in range(4):
        m["nics"].append({"name": f"mlx5_{i}", "pci": f"{[0, 2, 0x10, 0x12][i]:04x}:03:00.0", "numa": i // 2, "rate_gbps": 400})
    for i, gpu in enumerate(m["gpus"]):
        for j, nic in enumerate(m["nics"]):
            gpu["links"].append({"to": nic["pci"], "kind": "node" if i // 2 == j // 2 else "sys"})
    return m


def hybrid_workstation():
    """As Linux numbers an Intel Core i9-14900K (from memory): 8 performance cores with two threads each, CPUs 0-15, then 16
    efficient ones without SMT, CPUs 16-31; one cache, one node. Two GPUs on the CPU's lanes (x8/x8), one of them with the display."""
    cpu = [{"id": i, "core": i // 2 if i < 16 else i - 8, "l3": 0, "numa": 0, "package": 0} for i in range(32)]
    m = machine("hybrid-workstation", cpu, [(0, 96000)])
    add_gpu(m, "0000:01:00.0", 0, "NVIDIA GeForce RTX 4090", memory_mib=24564, display=True)
    add_gpu(m, "0000:02:00.0", 0, "NVIDIA GeForce RTX 4090", memory_mib=24564, display=False)
    link_all(m, [["X", "PHB"], ["PHB", "X"]])
    return m


def vm_unknown_node():
    """A virtual machine with 8 H100 whose firmware names no node for its devices (numa_node is -1, local_cpulist all CPUs), with two
    memory nodes of 48 CPUs all the same and no SMT shown. Links as the GPUs themselves tell them; sizes chosen."""
    m = machine("vm-unknown-node", cpus(96, 2, 2, 48, threads=1), [(0, 890000), (1, 890000)])
    for i in range(8):
        add_gpu(m, f"0000:{0x8a + i:02x}:00.0", 0, "NVIDIA H100 80GB HBM3", memory_mib=81559)
        m["gpus"][-1].update(numa=None, near_cpus={"node": "0-95", "package": "0-95"})
    link_all(m, [["X" if a == b else "NV18" for b in range(8)] for a in range(8)], switched=True)
    return m


def text(m):
    def block(items):
        return "[" + ",".join("\n  " + json.dumps(item) for item in items) + "]"
    fields = [f' "{key}": {block(value) if isinstance(value, list) else json.dumps(value)}' for key, value in m.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


if __name__ == "__main__":
    write_or_check(HERE, (make() for make in (hgx_h200_snc2, pcie_6_2, gb200_tray, hybrid_workstation, vm_unknown_node)), text)
