// Wishes about binding from JSON, and what the kernel was asked for or gave to JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/bind_wishes.hpp"
#include "model/bound.hpp"
#include "model/json.hpp"

namespace thole::model {

// {"mode": "node", "smt": "one", …}, with the words of the command line. Null says nothing. Strict: an unknown field is a
// mistake. Throws Error(usage).
BindWishes bind_wishes_from_json(const Json& json);

// Which rank of this machine is to be bound, next to which GPUs, and how.
struct RankWishes {
  std::optional<unsigned> local_rank, ranks;
  unsigned gpus_per_rank = 1;
  std::vector<std::string> on;                   // GPUs by word
  BindWishes bind;
};

// {"local_rank": 0, "ranks": 8, "gpus_per_rank": 1, "on": [], "bind": {…}}; every field may be absent or null.
// Throws Error(usage).
RankWishes rank_wishes_from_json(const Json& json);

// {"cpus": "0-3", "memory": "bind", "memory_nodes": [0]}; null for what is left alone.
Json to_json(const Binding& binding);

}  // namespace thole::model
