#include "app/claim/outer_claim.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::app {

bool names_a_claim(const plan::Environment& environment) {
  const auto named = environment.find("THOLE_CLAIM");
  return named != environment.end() && !named->second.empty();
}

std::vector<OuterClaim> claims_around(port::ClaimStore& machine, const plan::Environment& environment) {
  if (!names_a_claim(environment)) return {};
  std::vector<OuterClaim> all;
  for (std::string_view part : split(environment.at("THOLE_CLAIM"), '/')) {
    const std::shared_ptr<port::ClaimStore> claimed_in = all.empty() ? nullptr : all.front().store;
    port::ClaimStore& around = claimed_in ? *claimed_in : machine;
    std::vector<std::string> keys = around.own_claim(std::string(part));
    if (keys.empty()) break;
    std::optional<std::uint64_t> share = around.own_share(std::string(part));
    if (!all.empty() && all.front().share_mib) share = std::min(share.value_or(*all.front().share_mib), *all.front().share_mib);
    std::string id = all.empty() ? std::string(part) : all.front().id + "/" + std::string(part);
    std::vector<std::string> taken = around.watch(std::string(part)).exchanged;
    if (!all.empty()) taken.insert(taken.end(), all.front().taken.begin(), all.front().taken.end());
    OuterClaim found{std::move(id), std::move(keys), around.within(std::string(part)), claimed_in, share, std::move(taken)};
    all.insert(all.begin(), std::move(found));
  }
  return all;
}

std::optional<OuterClaim> outer_claim(port::ClaimStore& machine, const plan::Environment& environment) {
  std::vector<OuterClaim> all = claims_around(machine, environment);
  if (all.empty()) return std::nullopt;
  return std::move(all.front());
}

std::optional<plan::ToldGpus::Shown> shown_of_claim_around(const plan::Environment& environment) {
  if (!names_a_claim(environment)) return std::nullopt;
  const auto told = plan::ToldGpus::read(environment);
  return told ? told->shown_in(environment) : std::nullopt;
}

}  // namespace thole::app
