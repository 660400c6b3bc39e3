// What the configuration and the command line say about binding. What neither says is left to the defaults of the use: one
// command, or ranks.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/binding.hpp"

namespace thole::model {

struct BindWishes {
  bool off = false;                              // --no-bind: nothing at all
  std::optional<BindMode> mode;
  unsigned cores = 0;                            // with BindMode::core
  std::optional<Smt> smt;
  std::optional<bool> balanced, lend, strict;
  std::optional<Reserve> reserve;
  std::optional<MemoryPolicy> memory;
  std::optional<std::vector<int>> memory_nodes;  // with `memory`
  std::optional<NicMode> nic;
  std::optional<Threads> threads;

  // "core:4"; "bind" or "bind:0,2" with the nodes named. False when it is nothing known.
  bool set_mode(std::string_view text);
  bool set_memory(std::string_view text);

  // These wishes where they say something, else `base`.
  BindOptions over(BindOptions base) const;
};

}  // namespace thole::model
