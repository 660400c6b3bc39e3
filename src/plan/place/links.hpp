// How well any two of some units are joined, as one number to compare by and a name to show.
//
// The number: 100 for each effective NVLink, xGMI or C2C link (of the slower end; an NVSwitch counts each GPU's links into
// it), plus the PCIe class: 60 same board, 50 one switch, 40 several, 30 host bridge, 20 same NUMA node, 10 across. These
// are the weights of NVIDIA's go-gpuallocator; unlike there, NVSwitch links count. xGMI goes by KFD's weight (15 = direct).
#pragma once

#include <string>
#include <vector>

#include "model/machine.hpp"
#include "model/unit.hpp"

namespace thole::plan {

class Links {
 public:
  // Between the units whose indices are given; below, these are numbered by their position.
  Links(const model::Machine& machine, const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen);

  int score(std::size_t a, std::size_t b) const { return scores_[a * size_ + b]; }
  bool fast(std::size_t a, std::size_t b) const { return score(a, b) >= 100; }
  bool any_fast() const;
  long sum() const;                            // over all pairs
  bool one_switch(std::size_t a, std::size_t b) const { return pcie_[a * size_ + b] >= 50; }  // on one PCIe switch or board
  std::string name(std::size_t a, std::size_t b) const;   // "NV12", "XGMI", "PIX", "SYS", "same GPU"

 private:
  struct Pair { int nvlinks = 0, xgmi = 0, c2c = 0, pcie = 0; };  // hundreds for the first three, a class for the last
  void note(std::size_t a, std::size_t b, const model::Link& link);

  std::size_t size_;
  std::vector<Pair> seen_;                     // as listed by a about b
  std::vector<int> fabric_;                    // links into an NVSwitch
  std::vector<int> scores_, pcie_;
  std::vector<char> same_gpu_;
};

}  // namespace thole::plan
