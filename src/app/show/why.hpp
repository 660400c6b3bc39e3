// Why a GPU is, or is not, handed out; what a request waits for. Data, so that it can be printed and sent.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/show/overview.hpp"

namespace thole::app {

// One unit: a sentence for each thing that bears on it, the most important first.
struct UnitWhy {
  std::string unit;  // label
  State state = State::unknown;
  std::vector<std::string> sentences;
};

// How to end what keeps a claim that nobody keeps any more: "\n  kill 4711  # python train.py" for each; may be empty.
using WaysToEnd = std::function<std::string(const std::string& claim, uid_t owner)>;

// Of those whose name may be wrong.
std::vector<std::string> unverified(const std::vector<model::Holding>& holdings);

// Of a claim whose time is over: whether its holder still lives, and what that means for others.
std::vector<std::string> over_its_time(const std::vector<model::Holding>& holdings, WallTime now, const WaysToEnd& ways_to_end);

UnitWhy why_unit(const Overview& overview, std::size_t unit, const WaysToEnd& ways_to_end = {});

// A request: what would happen now, and what each unit would say to it.
struct RequestWhy {
  std::optional<Preview> preview;    // absent when it is refused
  std::vector<std::string> waiting;  // the sentences for a wait
  std::string refused;               // by what, in one sentence; "" when it is not
  std::vector<UnitWhy> units;
};

RequestWhy why_request(Site& site, const model::Request& request, const Overview& overview, const WaysToEnd& ways_to_end);

// A wait as it stands now: where in line, who holds what, the promised start, what would start it at once. Reads the
// claims.
std::vector<std::string> why_waiting(Site& site, const model::Request& request, const model::Wait& wait);

}  // namespace thole::app
