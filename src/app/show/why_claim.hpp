// A claim by its id: whose it is, what it has, what is claimed inside it, and whether anything uses it.
#pragma once

#include <string>
#include <vector>

#include "app/claim/holding.hpp"
#include "app/show/why.hpp"

namespace thole::app {

struct ClaimWhy {
  std::string id;
  std::vector<std::string> gpus;                 // labels
  std::vector<std::string> sentences;            // the most important first
};

ClaimWhy why_claim(const ClaimSearch& search, const KeptClaim& claim, const Overview& machine, const WaysToEnd& ways_to_end);

}  // namespace thole::app
