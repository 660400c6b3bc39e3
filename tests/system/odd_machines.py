"""Made-up machines, each odd in a way that a drawing must survive; as the objects of machine files."""


def cpus(cores, threads=1, numa=lambda c: 0, package=lambda c: 0, number=None):
    number = number or (lambda c, t: t * cores + c)
    return sorted(({"id": number(c, t), "core": c, "numa": numa(c), "package": package(c)}
                   for t in range(threads) for c in range(cores)), key=lambda cpu: cpu["id"])


def gpu(bus, numa, vendor="nvidia", model="NVIDIA L40S", **more):
    return {
        "uuid": f"GPU-{bus:08x}-0000-4000-8000-000000000000",
        "vendor": vendor,
        "model": model,
        "pci": f"0000:{bus:02x}:00.0",
        "memory_mib": 46068,
        "numa": numa,
        "use": {"memory_used_mib": 0, "utilization_percent": 0, "processes": []},
        **more,
    }


def link(gpus, a, b, kind, count=None):
    for x, y in ((a, b), (b, a)):
        gpus[x].setdefault("links", []).append({"to": gpus[y]["pci"], "kind": kind, **({"count": count} if count else {})})


def machine(name, cpu, numa, gpus, nics=(), outer=None):
    m = {"schema": "thole/machine/1", "name": name, "cpus": cpu, "numa": [{"id": i, "memory_mib": mib} for i, mib in numa],
         "gpus": gpus, "nics": list(nics)}
    return {**m, "outer": outer} if outer else m


def sixteen():
    """In the manner of a DGX-2: six NVLinks each into the switches, pairs and fours behind PCIe switches."""
    gpus = [gpu(16 + i, i // 8, model="Tesla V100-SXM3-32GB", memory_mib=32480) for i in range(16)]
    for a in range(16):
        for b in range(a):
            link(gpus, a, b, "nvlink", 6)
            link(
                gpus, a, b, "pix" if a // 2 == b // 2 else "pxb" if a // 4 == b // 4 else "node" if a // 8 == b // 8 else "sys"
            )
    return machine("sixteen", cpus(48, 2, lambda c: c // 24, lambda c: c // 24), [(0, 772458), (1, 774137)], gpus)


def power9():
    """Four threads a core, numbered together; GPU memory as nodes without CPUs; NVLink between the GPUs of a package."""
    gpus = [gpu(4 + i, 8 * (i // 2), model="Tesla V100-SXM2-16GB", memory_mib=16128) for i in range(4)]
    link(gpus, 0, 1, "nvlink", 3)
    link(gpus, 2, 3, "nvlink", 3)
    return machine("power9", cpus(44, 4, lambda c: 8 * (c // 22), lambda c: c // 22, number=lambda c, t: 4 * c + t),
                   [(0, 260000), (8, 261000), (252, 16128), (253, 16128), (254, 16128), (255, 16128)], gpus,
                   [{"name": "mlx5_0", "pci": "0003:01:00.0", "numa": 0, "rate_gbps": 100}])


def unknown():
    """Nothing but GPUs is known, and not everything of them."""
    return machine("unknown", [], [], [
        gpu(1, None, model=None, uuid=None), gpu(2, 0), gpu(3, None, "amd", "AMD Instinct MI210"),
        gpu(4, None, near_cpus={"node": "0-7"}, memory_mib=None)])


def threads():
    """What a table of nvidia-smi tells of CPUs: their node, but no cores and no packages. One GPU is placed by its near
    CPUs."""
    cpu = [{"id": c, "numa": 0 if c % 16 < 8 else 1} for c in range(32)]
    return machine("threads", cpu, [(0, None), (1, None)], [gpu(1, 0), gpu(2, None, near_cpus={"node": "8-15,24-31"})])


def flat():
    """Two packages in one node (NUMA switched off), hybrid cores, a process that may use some of them, devices of no node."""
    cpu = cpus(24, 1, package=lambda c: c // 12) + [{"id": 24 + c, "core": c, "numa": 0, "package": 0} for c in range(8)]
    return machine("flat", cpu, [(0, None)], [gpu(1, 0), gpu(2, None)],
                   [{"name": "eth0", "pci": None, "numa": None, "rate_gbps": None}],
                   {"visible_devices": None, "allowed_cpus": "0-3,24-27"})


def wide():
    """Every fourth CPU in each of four packages; long names; a GPU in three parts; more NICs than a line takes."""
    gpus = [gpu(16 + i, i, model="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition") for i in range(4)]
    for part in range(3):
        gpus.append({**gpu(64, 3, "amd", "AMD Instinct MI300X"), "uuid": f"GPU-part-{part}", "part": part, "memory_mib": 65530})
    nics = [
        {"name": f"enp{i}s0f0np0", "pci": f"0000:{144 + i:02x}:00.0", "numa": i % 2, "rate_gbps": 25 * (1 + i % 2)}
        for i in range(9)
    ]
    return machine("wide", cpus(64, 2, lambda c: c % 4, lambda c: c % 4), [(i, 64000 + i) for i in range(4)], gpus, nics)


def mesh():
    """Twelve GPUs joined by a ring of one link and chords of three: no regular pattern, so a table; two NICs on one card."""
    gpus = [gpu(32 + i, i // 6, "amd", "AMD Instinct MI100", memory_mib=32752) for i in range(12)]
    for i in range(12):
        link(gpus, i, (i + 1) % 12, "xgmi", 1)
    for i in range(0, 12, 3):
        link(gpus, i, (i + 5) % 12, "xgmi", 3)
    nics = [{"name": f"ens{f}f{f}", "pci": f"0000:{80}:00.{f}", "numa": 1, "rate_gbps": 100} for f in range(2)]
    return machine("mesh", cpus(32, 1, lambda c: c // 16, lambda c: c // 16), [(0, 128000), (1, 128000)], gpus, nics)


ALL = (sixteen, power9, unknown, threads, flat, wide, mesh)
