// What counts as free: a unit nobody claimed is handed out only if the driver agrees that nobody uses it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/machine.hpp"
#include "model/request.hpp"
#include "model/unit.hpp"

namespace thole::plan {

enum class Standing {
  free,      // healthy, no foreign use
  foreign,   // used by somebody without a claim
  sick,      // lost, reset required, mismatch …
  unknown,   // could not be observed: not free
};
const char* to_string(Standing standing);

struct Verdict {
  Standing standing = Standing::unknown;
  std::string why;                             // a sentence with who and how much; "" when free
  std::vector<pid_t> wait_for;                 // foreign processes whose end could free it
  std::uint64_t unclaimed_mib = 0;             // memory in use that no claim accounts for
  bool kept_by_use = false;                    // by nothing but use without a claim: who tolerates that could have it
  std::optional<std::uint32_t> used_by;        // whose use that is, where all that is seen is one user's
  bool used_by_unseen = false;                 // where no user is seen (hidepid, a container): anybody's
  bool last_resort = false;                    // graphics processes, a display, health unknown: comes last in order
};

// The program name of the process that makes claimed GPUs look used (port/placeholder.hpp). It is no use, whatever else a site
// ignores: claims inside the claim would wait for it for ever.
inline constexpr std::string_view placeholder_name = "thole-placeholder";

struct Blame { Standing standing; std::string why; };

// Why a GPU is of no use to a request whoever uses it: sick, or how it is cannot be told.
std::optional<Blame> illness(const model::Gpu& gpu, const model::Request& request);

// Whether sharers cannot be on it together.
bool admits_one_process(const model::Gpu& gpu);

// Judges one unit for a request. `own_pids`: processes that belong to live claims on this unit (they are not foreign).
// Rules and their order: docs/claims.md, "What counts as free".
Verdict judge(const model::Unit& unit, const model::Snapshot& snapshot, const model::Request& request,
              const model::FreePolicy& policy, const std::vector<pid_t>& own_pids, const std::string& my_user);

}  // namespace thole::plan
