// A machine with NVIDIA GPUs for tests: a directory with the kernel's files, and a configuration for the fake driver library.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/text.hpp"
#include "host/gpu/nvidia/backend.hpp"
#include "test_folders.hpp"

namespace thole::host {

class NvidiaMachine {
 public:
  // GPUs as the fake library makes them up: PCI 0000:07:00.0, 0f, 17 …
  explicit NvidiaMachine(int gpus) {
    std::string pattern = (std::filesystem::temp_directory_path() / "thole-nvidia-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    file("/proc/driver/nvidia/version",
         "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs)\nGCC version: 12\n");
    file("/proc/meminfo", "MemTotal:       65536000 kB\nMemFree: 1 kB\n");
    std::filesystem::create_directories(root() + "/proc/self/ns");
    std::filesystem::create_symlink("pid:[4026531836]", root() + "/proc/self/ns/pid");
    for (int i = 0; i < gpus; ++i) add(i);
    config("gpus " + std::to_string(gpus) + "\n");
  }
  ~NvidiaMachine() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  NvidiaMachine(const NvidiaMachine&) = delete;

  // A machine that has been up for long, so that what its driver told is kept between runs.
  void settle() const {
    file("/proc/sys/kernel/random/boot_id", "0f0e0d0c-0000-4000-8000-000000000001\n");
    file("/proc/uptime", "86400.00 172800.00\n");
  }

  // The library's functions that were called since this was last asked; needs count_calls() in the configuration.
  std::vector<std::string> calls() const {
    std::ifstream in(directory_ + "/calls");
    std::vector<std::string> names;
    for (std::string name; std::getline(in, name);) names.push_back(name);
    std::filesystem::remove(directory_ + "/calls");
    return names;
  }
  std::string count_calls() const { return "calls " + directory_ + "/calls\n"; }

  static std::string pci(int i) { return fmt::format("0000:{:02x}:00.0", 7 + 8 * i); }
  static std::string uuid(int i) {
    return fmt::format("GPU-{:08x}-0000-4000-8000-{:012x}", 0xfa4e0000u + static_cast<unsigned>(i), i);
  }

  std::string root() const { return directory_ + "/root"; }
  std::string runtime_dir() const { return directory_ + "/runtime"; }

  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }

  // Replaces the fake library's configuration, also of a probe that runs.
  void config(const std::string& text) const {
    std::string path = directory_ + "/nvml.conf";
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
    ::setenv("THOLE_FAKE_NVML", path.c_str(), 1);
  }

  NvidiaOptions options(const std::string& variant = "full") const {
    NvidiaOptions options;
    options.root = root();
    options.nvml_path = std::string(THOLE_BINARY_DIR) + "/fake/" + variant + "/libnvidia-ml.so.1";
    options.program = std::string(THOLE_BINARY_DIR) + "/fake/fake_probe";
    options.runtime_dir = runtime_dir();
    return options;
  }

 private:
  void add(int i) const {
    file("/proc/driver/nvidia/gpus/" + pci(i) + "/information",
         fmt::format("Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 90\nGPU UUID: \t {}\nVideo BIOS: \t 92.00.19.00.13\n"
                     "Bus Type: \t PCIe\nBus Location: \t {}\nDevice Minor: \t {}\nGPU Excluded:\t No\n", uuid(i), pci(i), i));
    std::string device = "/sys/bus/pci/devices/" + pci(i);
    file(device + "/vendor", "0x10de\n");
    file(device + "/class", "0x030200\n");
    file(device + "/numa_node", "0\n");
    file(device + "/local_cpulist", "0-7\n");
    file("/dev/nvidia" + std::to_string(i), "");
  }

  std::string directory_;
};

}  // namespace thole::host
