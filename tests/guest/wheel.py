"""What an installed wheel has to do on an older system; scripts/wheel-manylinux --test runs this there. A line for each."""
import ctypes.util
import json
import os
import platform
import subprocess
import sys

import tholepin


def thole(*words, without=()):
    environment = {name: value for name, value in os.environ.items() if name not in without}
    return subprocess.check_output(["thole", *words], env=environment, universal_newlines=True)


def check(what, seen, expected):
    if seen == expected:
        print("ok", what, seen, flush=True)
    else:
        print("not ok", what, seen, "instead of", expected, flush=True)
        failed.append(what)


def square(number):
    return number * number, os.environ["CUDA_VISIBLE_DEVICES"]


failed = []
if __name__ == "__main__":
    print("   ", sys.version.split()[0], *platform.libc_ver(), platform.machine())
    check("the program's version:", thole("--version").split()[:2], ["thole", tholepin.__version__])

    check("a libhwloc of the system's own:", ctypes.util.find_library("hwloc"), None)
    cpus = json.loads(thole("capture"))["cpus"]
    check("CPUs that `thole capture` reads by the wheel's:", [cpu["id"] for cpu in cpus], sorted(os.sched_getaffinity(0)))

    os.environ["THOLE_MACHINE"] = "4xA100"
    print(thole("status"))
    check("GPUs of a simulated machine:", len(tholepin.gpus()), 4)
    with tholepin.Pool(gpus=2) as pool:
        seen = pool.map(square, range(8), chunksize=1)
    check("a Pool of two:", [number for number, _ in seen], [number * number for number in range(8)])
    check("the GPUs of its workers:", {gpu for _, gpu in seen} <= {"0", "1"}, True)
    job = tholepin.submit([sys.executable, "-c", "import tholepin; print(len(tholepin.claim(2).gpus))"], gpus=2)
    check("a job:", [ended["state"] for ended in tholepin.wait(job)], ["done"])
    with tholepin.claim(2) as claim:
        check("GPUs of a claim:", len(claim.indices), 2)
        check("what is left, as others see it:", thole("status", without=claim.env).splitlines()[-1].split(";")[0],
              "2 free, 2 claimed")
    sys.exit(bool(failed))
