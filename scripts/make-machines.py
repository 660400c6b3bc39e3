#!/usr/bin/env python3
"""Writes the simulated machines that thole ships (machines/*.json). Run it from anywhere: it always gives the same bytes.

Where the figures come from is said at each machine. What no source states is marked "chosen". Memory totals and model names
are those that nvidia-smi, rocm-smi and xpu-smi print. UUIDs are hashes of the machine's name and the GPU's number.
"""
import hashlib
import json
import pathlib

from machine_parts import cpu_list, cpus, near, write_or_check

HERE = pathlib.Path(__file__).resolve().parent.parent / "machines"


def digest(*words):
    return hashlib.sha256(" ".join(map(str, words)).encode()).hexdigest()


def nvidia_uuid(*words, kind="GPU"):
    h = digest(*words)
    return f"{kind}-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:32]}"


def idle(temperature, power=None, limit=None):
    return {"memory_used_mib": 0, "utilization_percent": 0, "memory_utilization_percent": 0, "temperature_c": temperature,
            "power_w": power, "power_limit_w": limit, "processes": []}


def machine(name, cpu, numa_mib):
    return {"schema": "thole/machine/1", "name": name, "cpus": cpu,
            "numa": [{"id": i, "memory_mib": m} for i, m in enumerate(numa_mib)], "gpus": [], "nics": [], "under": {},
            "outer": {"visible_devices": None, "allowed_cpus": None}}


def add_gpu(m, vendor, model, pci, memory_mib, numa, power=None, limit=None, under=None, **more):
    """`under`: the host bridge and the switches above it, as "bridge/switch/port"; see pci_link."""
    index = len(m["gpus"])
    uuid = {"nvidia": nvidia_uuid(m["name"], index), "amd": "GPU-" + digest(m["name"], index)[:16], "intel": None}[vendor]
    gpu = {"uuid": uuid, "vendor": vendor, "model": model, "pci": pci,
           "minor": index if vendor == "nvidia" else 128 + index, "cuda_index": None, "memory_mib": memory_mib, "numa": numa,
           "near_cpus": near(m, numa), "links": [], "mig_mode": False, "mig": [], "coherent": False, "display": False,
           "compute_mode": "default" if vendor == "nvidia" else None, "health": "ok", "health_reason": None, "last_xid": None,
           "use": idle(29 + int(digest(m["name"], index, "t")[:2], 16) % 6, power, limit)}
    if vendor != "nvidia":
        gpu["unsupported"] = ["compute_mode"]
    gpu.update(more)
    m["gpus"].append(gpu)
    m["under"][pci] = (numa, under or pci)


def add_nic(m, name, pci, numa, rate_gbps, under=None):
    m["nics"].append({"name": name, "pci": pci, "numa": numa, "rate_gbps": rate_gbps})
    m["under"][pci] = (numa, under or pci)


def link(gpu, to, kind, count=None, weight=None):
    entry = {"to": to, "kind": kind}
    if count:
        entry["count"] = count
    if weight:
        entry["weight"] = weight
    gpu.setdefault("links", []).append(entry)


def pci_link(a, b):
    """The kind of link, as `nvidia-smi topo -m` defines them, from the nodes and paths of two devices. Paths that are equal to
    the end share the last switch (pix), those that part below a switch several (pxb), those that part at once the bridge."""
    (node_a, under_a), (node_b, under_b) = a, b
    if node_a != node_b:
        return "sys"
    path_a, path_b = under_a.split("/"), under_b.split("/")
    if path_a[0] != path_b[0]:
        return "node"
    if len(path_a) == 1 or len(path_b) == 1 or path_a[1] != path_b[1]:
        return "phb"
    return "pix" if path_a == path_b else "pxb"


def link_all(m, fast=lambda i, j: None):
    """Links between all devices with a PCI address: fast(i, j) -> (kind, count, weight) or None for two GPUs, and beside it
    the PCI path where it says more than the nodes do. Between two NICs they stand with the NICs, once for each end."""
    def link_by_path(end, other):
        kind = pci_link(m["under"][end["pci"]], m["under"][other["pci"]])
        if kind not in ("node", "sys"):
            link(end, other["pci"], kind)

    for i, gpu in enumerate(m["gpus"]):
        for j, other in enumerate(m["gpus"]):
            if i != j:
                if fast(i, j):
                    link(gpu, other["pci"], *fast(i, j))
                link_by_path(gpu, other)
    for end in m["gpus"] + m["nics"]:
        for nic in m["nics"]:
            if end["pci"] and nic["pci"] and end is not nic:
                link_by_path(end, nic)


def dgx1v():
    """DGX-1 with Tesla V100. NVLink hybrid cube mesh and CPU lists: NVIDIA/go-gpuallocator, gpuallocator/common_test.go
    (Apache-2.0) and NVIDIA/gpu_affinity's tests. PCI addresses, NICs, 2 x E5-2698 v4, 512 GB: DGX-1 user guide."""
    m = machine("dgx1v", cpus(40, 2, 2, 20), [257872, 258041])
    for i, bus in enumerate(("06", "07", "0a", "0b", "85", "86", "89", "8a")):
        add_gpu(m, "nvidia", "Tesla V100-SXM2-32GB", f"0000:{bus}:00.0", 32768, i // 4, 43, 300, under=f"bridge/{i // 2}")
    for i, bus in enumerate(("05", "0c", "84", "8b")):
        add_nic(m, f"mlx5_{i}", f"0000:{bus}:00.0", i // 2, 100, under=f"bridge/{i}")
    lanes = ["x1122---", "1x21-2--", "12x2--1-", "212x---1", "2---x112", "-2--1x21", "--1-12x2", "---1212x"]
    link_all(m, lambda i, j: None if lanes[i][j] == "-" else ("nvlink", int(lanes[i][j])))
    return m


def dgx_a100():
    """DGX A100 640 GB. Matrix, CPU lists, nodes: github.com/NVIDIA/nccl/issues/1505 (nvidia-smi topo -m), rows 5 to 7 by
    symmetry. Half of the eight nodes have no GPU. PCI addresses, NICs, 2 x EPYC 7742 (NPS4, 4 cores an L3), 2 TB: DGX A100
    user guide; how much of it Linux leaves each node is chosen."""
    m = machine("dgx-a100", cpus(128, 8, 2, 4), [257602, 258039, 258039, 258027, 258039, 258039, 258039, 258032])
    for i, (bus, node) in enumerate((("07", 3), ("0f", 3), ("47", 1), ("4e", 1), ("87", 7), ("90", 7), ("b7", 5), ("bd", 5))):
        add_gpu(m, "nvidia", "NVIDIA A100-SXM4-80GB", f"0000:{bus}:00.0", 81920, node, 62, 400, under=f"{node}/switch/gpu{i}")
    for i, (pci, node) in enumerate(
        (
            ("0c:00.0", 3),
            ("12:00.0", 3),
            ("4b:00.0", 1),
            ("54:00.0", 1),
            ("61:00.0", 0),
            ("61:00.1", 0),
            ("8d:00.0", 7),
            ("94:00.0", 7),
            ("ba:00.0", 5),
            ("cc:00.0", 5),
            ("e1:00.0", 4),
            ("e1:00.1", 4),
        )
    ):
        add_nic(m, f"mlx5_{i}", f"0000:{pci}", node, 200, under=f"{node}/switch/{pci[:5]}")
    link_all(m, lambda i, j: ("nvswitch", 12))
    return m


def dgx_h100():
    """DGX H100. 18 NVLinks through NVSwitches; one ConnectX-7 beside each GPU, two more for storage; 2 x Xeon 8480C (56 cores),
    2 TB: DGX H100/H200 user guide. Shape of the matrix: github.com/HazyResearch/ThunderKittens/issues/167."""
    m = machine("dgx-h100", cpus(112, 2, 2, 56), [1031671, 1032158])
    for i, bus in enumerate(("1b", "43", "52", "61", "9d", "c3", "d1", "df")):
        add_gpu(m, "nvidia", "NVIDIA H100 80GB HBM3", f"0000:{bus}:00.0", 81559, i // 4, 70, 700, under=f"{i}/switch/gpu")
    beside = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")
    for i, bus in enumerate(("18", "29", "40", "4f", "5e", "9a", "aa", "c0", "ce", "dc")):
        under = f"{beside.index(bus)}/switch/nic" if bus in beside else None
        add_nic(m, f"mlx5_{i}", f"0000:{bus}:00.0", i // 5, 400, under=under)
    link_all(m, lambda i, j: ("nvswitch", 18))
    return m


def hgx_h200():
    """HGX H200 board with sub-NUMA clustering (SNC2): three GPUs on one half of a socket, one on the other. Matrix and CPU
    lists: github.com/sgl-project/sglang/issues/13973 (GPUs 6 and 7 by symmetry). PCI addresses, NICs and memory are chosen."""
    m = machine("hgx-h200", cpus(96, 4, 2, 48), [515487, 516069, 516030, 516066])
    for i, (bus, node) in enumerate((("19", 0), ("3b", 0), ("4c", 0), ("5d", 1), ("9b", 2), ("bb", 2), ("cb", 2), ("db", 3))):
        add_gpu(m, "nvidia", "NVIDIA H200", f"0000:{bus}:00.0", 143771, node, 77, 700, under=f"{i}/switch")
        add_nic(m, f"mlx5_{i}", f"0000:{int(bus, 16) - 1:02x}:00.0", node, 400, under=f"{i}/switch")
    link_all(m, lambda i, j: ("nvswitch", 18))
    return m


def mixed_workstation():
    """A workstation that grew: PCI order is old to new, CUDA's default order is fastest first. A chosen machine, in the manner
    of the five-GPU one of github.com/noonghunna/club-3090/issues/46; the two RTX 3090 have a bridge (4 links)."""
    m = machine("mixed-workstation", cpus(24, 1, 1, 3), [257600])
    for bus, model, mib, cuda, limit in (
        ("01", "NVIDIA GeForce RTX 3060", 12288, 3, 170),
        ("21", "NVIDIA GeForce RTX 3090", 24576, 1, 350),
        ("41", "NVIDIA GeForce RTX 3090", 24576, 2, 350),
        ("61", "NVIDIA GeForce RTX 4090", 24564, 0, 450),
    ):
        add_gpu(m, "nvidia", model, f"0000:{bus}:00.0", mib, 0, 18, limit, under="bridge", cuda_index=cuda)
    add_nic(m, "enp66s0", "0000:42:00.0", 0, 10, under="bridge")
    link_all(m, lambda i, j: ("nvlink", 4) if {i, j} == {1, 2} else None)
    return m


def mig_a100():
    """Two A100 40 GB, the first cut into four instances. Profiles, their memory and the numbers of their GPU instances: NVIDIA
    MIG user guide. In MIG mode the driver reports no utilisation of the whole GPU. The host is chosen."""
    m = machine("mig-a100", cpus(32, 2, 2, 4), [128700, 128999])
    for i, bus in enumerate(("17", "ca")):
        add_gpu(m, "nvidia", "NVIDIA A100-PCIE-40GB", f"0000:{bus}:00.0", 40960, i, 36, 250)
    first = m["gpus"][0]
    first["mig_mode"] = True
    for part, (profile, mib, gi) in enumerate(
        (("3g.20gb", 19968, 2), ("2g.10gb", 9856, 3), ("1g.5gb", 4864, 9), ("1g.5gb", 4864, 10))
    ):
        use = idle(None)
        use.update(
            utilization_percent=None,
            memory_utilization_percent=None,
            unsupported=["utilization_percent", "memory_utilization_percent", "temperature_c", "power_w", "power_limit_w"],
        )
        first["mig"].append({"uuid": nvidia_uuid(m["name"], 0, part, kind="MIG"), "profile": profile, "memory_mib": mib,
                             "instance": [gi, 0], "use": use})
    first["use"].update(utilization_percent=None, memory_utilization_percent=None,
                        unsupported=["utilization_percent", "memory_utilization_percent"])
    link_all(m)
    return m


def mi250x():
    """Four MI250X modules = eight devices, one EPYC 7A53: LLNL's El Capitan early access system. CPUs, nodes and their memory,
    PCI addresses, NICs: LLNL/mpibind topo-xml/eas-tioga.xml (MIT), where every pair of devices is one xGMI hop apart (KFD
    weight 15); four links join the two devices of a module (AMD CDNA 2 white paper)."""
    m = machine("mi250x", cpus(64, 4, 1, 8), [128489, 128972, 129015, 128999])
    for i, (bus, node) in enumerate((("c1", 3), ("c6", 3), ("c9", 1), ("ce", 1), ("d1", 0), ("d6", 0), ("d9", 2), ("de", 2))):
        add_gpu(m, "amd", "AMD Instinct MI250X", f"0000:{bus}:00.0", 65520, node, 90, 560, under=f"{node}{'ab'[i % 2]}")
    for i, (bus, node) in enumerate((("c5", 3), ("cd", 1), ("d5", 0), ("dd", 2))):
        add_nic(m, f"hsi{i}", f"0000:{bus}:00.0", node, 200, under=f"{node}b")
    link_all(m, lambda i, j: ("xgmi", 4 if i // 2 == j // 2 else None, 15))
    return m


def intel_max():
    """Six Max 1550 in a node like Aurora's: 2 x Xeon Max 9470C (52 cores) whose HBM is two memory nodes without CPUs, three
    GPUs a socket, the second socket in PCI domain 1, eight Slingshot NICs: ALCF's Aurora user guide. Xe Link is no kind of link
    in the schema, so pairs show their PCIe distance. The NICs' PCI addresses are not published."""
    m = machine("intel-max", cpus(104, 2, 2, 52), [515400, 516050, 65536, 65536])
    for i in range(6):
        add_gpu(
            m,
            "intel",
            "Intel(R) Data Center GPU Max 1550",
            f"{i // 3:04x}:{('18', '42', '6c')[i % 3]}:00.0",
            131072,
            i // 3,
            130,
            600,
        )
    for i in range(8):
        add_nic(m, f"hsn{i}", None, i // 4, 200)
    link_all(m)
    return m


def display():
    """A desktop whose only GPU drives the screen. Chosen; the sizes are those of an idle GNOME session."""
    m = machine("display", cpus(8, 1, 1, 8), [31947])
    add_gpu(m, "nvidia", "NVIDIA GeForce RTX 3080", "0000:01:00.0", 10240, 0, 34, 320, display=True)
    m["gpus"][0]["use"].update(
        memory_used_mib=497,
        utilization_percent=3,
        memory_utilization_percent=1,
        temperature_c=44,
        processes=[
            {"pid": pid, "user": user, "command": command, "kind": "graphics", "memory_mib": mib, "watch": False}
            for pid, user, command, mib in (
                (1893, "root", "/usr/lib/xorg/Xorg", 214),
                (2107, "anna", "/usr/bin/gnome-shell", 98),
                (3340, "anna", "/usr/lib/firefox/firefox", 147),
            )
        ],
    )
    return m


def none():
    """A laptop without a GPU. Chosen."""
    return machine("none", cpus(4, 1, 1, 4), [15847])


def compact(pus):
    """The CPUs of a node as one entry where its cores and caches come in order, which they do on all machines here: files are
    read at every start of the program."""
    groups = {}
    for pu in pus:
        groups.setdefault((pu["numa"], pu["package"]), []).append(pu)
    entries = []
    for (numa, package), own in groups.items():
        cores, caches = (sorted({pu[key] for pu in own}) for key in ("core", "l3"))
        each = len(cores) // len(caches)
        for i, pu in enumerate(sorted(own, key=lambda pu: pu["id"])):
            at = i % len(cores)
            assert (pu["core"], pu["l3"]) == (cores[at], caches[at // each]), (numa, pu)
        entries.append({"id": cpu_list(pu["id"] for pu in own), "core": cpu_list(cores),
                        "l3": caches[0] if len(caches) == 1 else cpu_list(caches), "numa": numa, "package": package})
    return entries


def compact_links(links):
    """Links that differ only in where they go become one entry with a list, for the same reason."""
    groups = {}
    for entry in links:
        rest = {k: v for k, v in entry.items() if k != "to"}
        groups.setdefault(json.dumps(rest), (rest, []))[1].append(entry["to"])
    return [{"to": to if len(to) > 1 else to[0], **rest} for rest, to in groups.values()]


SAME_AS_ABSENT = {"cuda_index": None, "mig_mode": False, "mig": [], "coherent": False, "health": "ok", "health_reason": None,
                  "last_xid": None}


def terse(device):
    """Without the fields that would be read so if they were absent."""
    return {k: compact_links(v) if k == "links" else v for k, v in device.items() if (k, v) not in SAME_AS_ABSENT.items()}


def text(m):
    """JSON for people: one line for each group of CPUs, kind of link, and NIC."""
    def lines(items, indent):
        return ",\n".join(" " * indent + json.dumps(i) for i in items)

    def block(items, indent):
        return "[\n" + lines(items, indent) + "]" if items else "[]"

    out = [
        f' "schema": {json.dumps(m["schema"])}',
        f' "name": {json.dumps(m["name"])}',
        f' "cpus": {block(compact(m["cpus"]), 2)}',
        f' "numa": {block(m["numa"], 2)}',
    ]
    gpus = []
    for gpu in m["gpus"]:
        fields = []
        for key, value in terse(gpu).items():
            listed = key in ("links", "mig") and value
            fields.append(f'   {json.dumps(key)}: {block(value, 5) if listed else json.dumps(value)}')
        gpus.append("  {\n" + ",\n".join(fields) + "}")
    out.append(' "gpus": [' + ("\n" + ",\n".join(gpus) if gpus else "") + "]")
    out.append(f' "nics": {block([terse(nic) for nic in m["nics"]], 2)}')
    out.append(f' "outer": {json.dumps(m["outer"])}')
    return "{\n" + ",\n".join(out) + "\n}\n"


MACHINES = (dgx1v, dgx_a100, dgx_h100, hgx_h200, mixed_workstation, mig_a100, mi250x, intel_max, display, none)


if __name__ == "__main__":
    write_or_check(HERE, (make() for make in MACHINES), text)
