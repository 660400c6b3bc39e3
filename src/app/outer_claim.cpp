#include "app/outer_claim.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::app {

std::optional<OuterClaim> outer_claim(port::ClaimStore& machine, const plan::Environment& environment) {
  const auto named = environment.find("THOLE_CLAIM");
  if (named == environment.end() || named->second.empty()) return std::nullopt;
  std::optional<OuterClaim> outer;
  for (std::string_view part : split(named->second, '/')) {
    port::ClaimStore& around = outer ? *outer->store : machine;
    std::vector<std::string> keys = around.own_claim(std::string(part));
    if (keys.empty()) break;
    std::optional<std::uint64_t> share = around.own_share(std::string(part));
    if (outer && outer->share_mib) share = std::min(share.value_or(*outer->share_mib), *outer->share_mib);
    std::unique_ptr<port::ClaimStore> inner = around.within(std::string(part));
    const std::string id = outer ? outer->id + "/" + std::string(part) : std::string(part);
    outer = OuterClaim{id, std::move(keys), std::move(inner), share};
  }
  return outer;
}

}  // namespace thole::app
