"""A machine with faked NVIDIA GPUs: kernel files below a root prefix and a configuration for the fake libnvidia-ml
(tests/fake/nvml.c)."""
import json
import os
import pathlib
import shutil
import subprocess
import time

from run_tools import BUILD, SANITIZED, THOLE

# Seconds. `status` promises 5, whatever the driver does; who waited for a hung driver would be here for ever, and a machine
# that is loaded by others is no reason to fail.
STATUS_LIMIT = 60.0 if SANITIZED else 30.0


class Driver:
    """A machine with faked NVIDIA GPUs and what is needed to run thole on it."""

    def __init__(self, directory, gpus):
        self.root = directory / "root"
        self.conf = directory / "nvml.conf"
        self.write(
            "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
        )
        (self.root / "proc/self/ns").mkdir(parents=True)
        (self.root / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
        self.set_gpus(gpus)
        (directory / "run").mkdir(mode=0o700)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("THOLE_", "CUDA_"))}
        self.environment |= {"THOLE_SYSROOT": str(self.root), "THOLE_NVML": str(BUILD / "fake/full/libnvidia-ml.so.1"),
                             "THOLE_FAKE_NVML": str(self.conf), "THOLE_STATE_DIR": str(directory / "state"),
                             "THOLE_PERSONAL_DIR": str(directory / "run")}

    def set_gpus(self, gpus, models=None):
        """From now on the machine has so many. Which of them are no A100, by index: the kernel's files tell the model as well
        as the library does (`gpu I name`), and a GeForce has connectors (PCI class 0300)."""
        for pci in self.root.glob("proc/driver/nvidia/gpus/*"):
            for path in (pci, self.root / "sys/bus/pci/devices" / pci.name):
                shutil.rmtree(path)
        for i in range(gpus):
            pci = self.pci(i)
            model = (models or {}).get(i, "NVIDIA A100-SXM4-80GB")
            pci_class = "0x030000" if "GeForce" in model else "0x030200"
            self.write(f"/proc/driver/nvidia/gpus/{pci}/information",
                       f"Model: \t\t {model}\nGPU UUID: \t {self.uuid(i)}\nDevice Minor: \t {i}\nGPU Excluded:\t No\n")
            for name, text in (("vendor", "0x10de"), ("class", pci_class), ("numa_node", "0"), ("local_cpulist", "0-7")):
                self.write(f"/sys/bus/pci/devices/{pci}/{name}", text + "\n")
            self.write(f"/dev/nvidia{i}", "")
        self.configure(f"gpus {gpus}")

    @staticmethod
    def pci(i):
        return f"0000:{7 + 8 * i:02x}:00.0"

    @staticmethod
    def uuid(i):
        return f"GPU-{0xfa4e0000 + i:08x}-0000-4000-8000-{i:012x}"

    def with_library_of_its_own(self, folder):
        """With its configuration beside it: lanes of the queue inherit no variable for it."""
        library = folder / "libnvidia-ml.so.1"
        shutil.copy(BUILD / "fake/full/libnvidia-ml.so.1", library)
        del self.environment["THOLE_FAKE_NVML"]
        self.environment["THOLE_NVML"] = str(library)

    def write(self, path, text):
        file = pathlib.Path(str(self.root) + path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def configure(self, *lines):
        new = self.conf.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.rename(self.conf)

    def thole(self, *words, timeout=200):
        return subprocess.run([THOLE, *words], capture_output=True, text=True, env=self.environment, timeout=timeout)

    def status(self):
        """`status --json`, within its time."""
        begin = time.monotonic()
        result = self.thole("status", "--json")
        took = time.monotonic() - begin
        assert result.returncode == 0, result.stderr
        assert took < STATUS_LIMIT, f"status took {took:.1f} s"
        return json.loads(result.stdout)
