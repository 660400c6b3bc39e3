// Why a request waits, or what keeps a GPU, in sentences. Pure: the same values give the same words.
// Names and command lines of others are made printable here; times are local.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/claim.hpp"
#include "model/queue_view.hpp"
#include "model/request.hpp"
#include "model/unit.hpp"
#include "plan/place/free.hpp"

namespace thole::plan {

// What the sentences speak of.
struct Scene {
  const std::vector<model::Unit>& units;
  const std::vector<Verdict>& verdicts;        // by unit; may be empty: then only claims are named
  const std::vector<model::Holding>& holdings;
  const std::vector<model::Waiting>& queue;
  WallTime now;
};

// What keeps a unit: "anna since 14:02, until 15:20 (python train.py)", "used without a claim by …"; "" when nothing does.
std::string explain_unit(std::size_t unit, const Scene& scene);

// Why this request waits, the most useful first, one sentence or clause each; joined by "; " they make one line:
//   2nd in line, behind bert (2 GPUs, since 14:05)
//   GPU 3: anna since 14:02, until 15:20 (python train.py)
//   starts by 15:20 at the latest
//   with --time 40m or less it would start now
std::vector<std::string> explain_wait(const model::Wait& wait, const model::Request& request,
                                      const std::vector<std::size_t>& eligible, const Scene& scene);

// "1st", "2nd", "11th".
std::string ordinal(unsigned number);

}  // namespace thole::plan
