// The variables a job gets so that it sees its GPUs and no others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/machine.hpp"
#include "model/request.hpp"
#include "model/unit.hpp"
#include "plan/place/select.hpp"

namespace thole::plan {

enum class Ids { automatic, uuid, index };
std::optional<Ids> parse_ids(std::string_view text);

struct Variables {
  std::map<std::string, std::string> set;
  std::vector<std::string> unset;
  bool operator==(const Variables&) const = default;
};

// By model/vendors.hpp: what puts numbers in PCI order always; the list of each vendor that is here, empty for a claim of no
// GPU and then for all vendors; THOLE_CLAIM and THOLE_GPUS (JSON list with key, uuid, pci, index, model, memory).
// Hints for sharers.
// `automatic` writes indices for whole GPUs when this process's numbering is certain (no outer mask, no container), else UUIDs.
// Sources of the rules: docs/environment.md.
Variables environment(const std::vector<std::size_t>& chosen, const std::vector<model::Unit>& units,
                      const model::Snapshot& snapshot, const model::Request& request, Ids ids, bool numbering_certain,
                      const std::string& claim_id);

// Whether each of them has a name that its runtime knows and that no other GPU gets when it leaves the driver's list: with
// Ids::uuid they are shown by these. Some go by number only: Intel's, AMD's without a unique id and in partitions.
bool have_lasting_names(const std::vector<std::size_t>& chosen, const std::vector<model::Unit>& units,
                        const model::Machine& machine);

}  // namespace thole::plan
