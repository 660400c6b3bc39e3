// How any two devices of a machine are joined, as its links tell it: what `topo` draws and its matrix says.
//
// Both ends list a link; where they differ the slower one counts, and one end alone is believed. PCIe distances form a tree, so
// a distance that nobody lists is at most the longest step of any way over other devices,
// and on the shortest such way mostly that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/machine.hpp"

namespace thole::app {

struct Join {
  std::optional<model::LinkKind> fast;  // nvlink, nvswitch, xgmi or c2c
  std::optional<int> count;             // of those links; absent = one or more
  std::optional<model::LinkKind> pcie;  // pix … sys; absent = nothing tells
  bool same = false;                    // parts of one GPU: one PCI function
};

class Joins {
 public:
  explicit Joins(const model::Machine& machine);

  // Devices are numbered: GPUs in machine order, then NICs.
  std::size_t size() const { return size_; }
  const Join& between(std::size_t a, std::size_t b) const { return joins_[a * size_ + b]; }

  // As `nvidia-smi topo -m` has it: "NV12", "XGMI", "C2C", "PIX" … "SYS";
  // "X" for a device and itself, "N/A" when nothing tells.
  std::string label(std::size_t a, std::size_t b) const;

 private:
  void read_links(const model::Machine& machine);
  void agree();
  void complete_pcie(const model::Machine& machine);
  Join& at(std::size_t a, std::size_t b) { return joins_[a * size_ + b]; }

  std::size_t size_;
  std::vector<Join> joins_;
};

// One switch or several, without the host bridge between: the devices share what lies above.
bool behind_one_switch(const Join& join);

}  // namespace thole::app
