#!/usr/bin/env python3
"""What seeing the GPUs costs on a faked 8-GPU driver: `thole status` beside the driver library's own calls, and beside the way
safe-gpu looks (an interpreter that runs nvidia-smi three times).

Usage: bench/status.py [--build build] [--rounds 100]
Each round does each once, in turn, so that they see the same machine. The fake library takes as long as a real one was measured
to take: process lists 4.5 ms each (driver 610; MangoHud pull request 2104), 10 ms to initialise (persistence on). Printed are
medians; "beyond the library" is `status` less the calls that its probe makes. docs/performance.md bounds it.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
DELAYS = ["delay_us nvmlInit_v2 10000", "delay_us nvmlDeviceGetComputeRunningProcesses_v3 4491",
          "delay_us nvmlDeviceGetGraphicsRunningProcesses_v3 4491"]
# The calls and the parsing of safe_gpu's own code, without its imports: they would only make it slower.
SAFE_GPU = """
import subprocess
text = subprocess.run(["nvidia-smi", "-q"], stdout=subprocess.PIPE).stdout.decode("ascii")
attached = [int(line.split()[-1]) for line in text.splitlines() if "Attached GPUs" in line][0]
def query(what):
    out = subprocess.check_output(["nvidia-smi", "--format=csv,noheader", what]).decode("ascii")
    return [[part.strip() for part in line.split(",")] for line in out.splitlines()]
gpus = {bus: index for index, bus in query("--query-gpu=index,gpu_bus_id")}
busy = {bus for pid, bus in query("--query-compute-apps=pid,gpu_bus_id")}
print([index for bus, index in gpus.items() if bus not in busy])
"""


def milliseconds(work):
    begin = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begin) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    os.environ["THOLE_BUILD_DIR"] = str(build)
    os.environ.setdefault("THOLE", str(build / "thole"))
    sys.path.insert(0, str(ROOT / "tests/system"))
    from fake_nvidia import Driver

    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(pathlib.Path(folder), 8)
        driver.environment["PATH"] = f"{build}/fake:" + driver.environment["PATH"]
        quiet = {"env": driver.environment, "stdout": subprocess.DEVNULL, "check": True}
        library = driver.environment["THOLE_NVML"]

        def calls_ms():
            out = subprocess.run(
                [f"{build}/fake/fake_probe", "calls", library, "1"],
                env=driver.environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            return int(out) / 1000

        for title, delays in (("a library that answers at once", []), ("a library as slow as a real one", DELAYS)):
            driver.configure("gpus 8", *delays)
            calls, status, safe = [], [], []
            for _ in range(arguments.rounds):
                calls.append(calls_ms())
                status.append(milliseconds(lambda: subprocess.run([os.environ["THOLE"], "status"], **quiet)))
                safe.append(milliseconds(lambda: subprocess.run([sys.executable, "-c", SAFE_GPU], **quiet)))
            own, ours, theirs = map(statistics.median, (calls, status, safe))
            print(f"{title} ({arguments.rounds} rounds, interleaved, medians)")
            print(f"  the library's own calls     {own:8.2f} ms")
            print(f"  thole status                {ours:8.2f} ms   {ours - own:.2f} ms beyond the library")
            print(f"  safe-gpu's look             {theirs:8.2f} ms   {theirs / ours:.1f} times thole status")


if __name__ == "__main__":
    main()
