// Captured machines as test input: unpacks an archive of tests/topologies/ into the build folder and gives its root.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "test_folders.hpp"

namespace thole::test {

// captured_tree("hwloc/nvidia-dgx-gb10.tar.gz") -> the folder it was unpacked in. Unpacked once; tests running at the same
// time each unpack privately and the first rename wins.
inline std::filesystem::path captured_tree(const std::string& archive) {
  namespace fs = std::filesystem;
  const fs::path target = fs::path(THOLE_BINARY_DIR) / "topologies" / archive.substr(0, archive.find(".tar"));
  if (fs::exists(target)) return target;
  fs::create_directories(target.parent_path());
  std::string own = target.string() + ".XXXXXX";
  if (!::mkdtemp(own.data())) throw std::runtime_error("cannot make " + own);
  const fs::path packed = fs::path(THOLE_SOURCE_DIR) / "tests/topologies" / archive;
  const std::string command = "tar xzf '" + packed.string() + "' -C '" + own + "'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot unpack: " + command);
  std::error_code lost_the_race;
  fs::rename(own, target, lost_the_race);
  if (lost_the_race) fs::remove_all(own);
  return target;
}

// A folder of its own for a made-up tree of /sys and /proc, removed at the end.
class MadeUpTree {
 public:
  MadeUpTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "thole-tree.XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make " + pattern);
    root_ = pattern;
  }
  MadeUpTree(const MadeUpTree&) = delete;
  MadeUpTree& operator=(const MadeUpTree&) = delete;
  ~MadeUpTree() { std::filesystem::remove_all(root_); }

  std::string root() const { return root_.string(); }

  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    FILE* out = std::fopen((root_ / path).c_str(), "w");
    if (!out) throw std::runtime_error("cannot write " + path);
    std::fputs(text.c_str(), out);
    std::fclose(out);
  }
  void folder(const std::string& path) { std::filesystem::create_directories(root_ / path); }
  // A symbolic link at `path` to `target`, both named from the root.
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories((root_ / path).parent_path());
    const auto from = (root_ / path).parent_path();
    std::filesystem::create_symlink(std::filesystem::relative(root_ / target, from), root_ / path);
  }

  // A PCI device below `bridges` ("pci0000:00/0000:00:01.0"), with its link in /sys/bus/pci/devices.
  std::string pci(const std::string& bridges, const std::string& address, const std::string& vendor, const std::string& device,
                  const std::string& device_class, const std::string& numa = "0", const std::string& local = "0-3") {
    std::string at = "sys/devices/" + bridges + "/" + address;
    file(at + "/vendor", vendor + "\n");
    file(at + "/device", device + "\n");
    file(at + "/class", device_class + "\n");
    file(at + "/numa_node", numa + "\n");
    file(at + "/local_cpulist", local + "\n");
    link("sys/bus/pci/devices/" + address, at);
    return at;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace thole::test
