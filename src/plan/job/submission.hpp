// What a job takes along from where it is submitted: the environment, less what holds only there, and the GPUs it may use.
//
// How this works. A job runs later and elsewhere on the machine than the shell it was submitted from, so a mask of GPUs in that
// shell must not reach it as a variable: thole sets those anew when the job has its GPUs. A mask that the user set himself is a
// wish, though, and becomes --on. One that thole set (the submission comes from inside a claim) says only where the submitting
// program runs, and is dropped with everything else that describes that claim.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/shell_kind.hpp"
#include "model/machine.hpp"
#include "model/request.hpp"
#include "model/unit.hpp"
#include "plan/place/select.hpp"

namespace thole::plan {

struct Luggage {
  std::vector<std::string> environment;          // "NAME=VALUE", sorted
  std::vector<std::string> on, not_on, order;    // Request's of the job, by names that last
  std::string masked_by;                         // the user's own variable that became `on`; "" = none did
  bool inside_claim = false;
};

// Throws Error(usage) when the user's mask leaves none of the GPUs that the request names.
Luggage luggage(const Environment& environment, const model::Request& request, const model::Snapshot& snapshot,
                const std::vector<model::Unit>& units, const AskShell& shell = {});

}  // namespace thole::plan
