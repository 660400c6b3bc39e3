#include "app/claim/selection.hpp"

#include <algorithm>
#include <vector>

#include "base/refusal.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

// Who shares has his figure of a GPU's memory, and so has all that claims within.
void check_share(const model::Request& request, const OuterClaim& around) {
  if (!around.share_mib || request.memory_mib.value_or(0) <= *around.share_mib) return;
  throw NeverPossible(Error(ErrorCode::usage, fmt::format("{} asked for; the claim around this has a share of {}",
                                                          request.describe(), format_mib(*around.share_mib)))
                          .about("--memory").hint("ask for at most that, or claim a larger share outside"));
}

// Without any mask.
bool would_do(const model::Request& request, const model::Snapshot& snapshot, const std::vector<model::Unit>& units) {
  plan::Outer all;
  all.visible.assign(units.size(), true);
  try {
    (void)plan::eligible(request, snapshot, units, all);
    return true;
  } catch (const NeverPossible&) {
    return false;
  }
}

}  // namespace

plan::Selection select(const Site& site, const model::Request& request, const OuterClaim* within) {
  const auto& snapshot = site.observer.snapshot();
  const auto& units = site.observer.units();
  plan::Outer outer =
      plan::outer_allotment(snapshot, units, within ? plan::masks_alone(site.environment) : site.environment);
  outer.shell = site.shell;
  if (within) {
    bool masked = false;   // the claim's own variables show all of it
    for (std::size_t i = 0; i < units.size(); ++i) {
      const bool ours = std::ranges::find(within->keys, units[i].key) != within->keys.end();
      masked = masked || (ours && !outer.visible[i]);
      outer.visible[i] = outer.visible[i] && ours;
    }
    if (!masked) {
      outer.named_by = site.claim_named_by;
      outer.variables.clear();                   // to unset them would widen nothing
    }
    check_share(request, *within);
  }
  try {
    return plan::eligible(request, snapshot, units, outer);
  } catch (const NeverPossible& error) {
    if (within || !shows_a_claim_alone(site.environment, units, outer) || !would_do(request, snapshot, units)) throw;
    throw NeverPossible(Error(error.code(), error.what()).about(error.object())
                            .hint(fmt::format("{}\nif the claim of this shell has ended:\n{}", error.hint(),
                                              unset_claim_in(site.shell))));
  }
}

bool shows_a_claim_alone(const plan::Environment& environment, const std::vector<model::Unit>& units,
                         const plan::Outer& outer) {
  const auto claim = environment.find("THOLE_CLAIM"), gpus = environment.find("THOLE_GPUS");
  if (claim == environment.end() || claim->second.empty() || gpus == environment.end() || outer.named_by.empty()) return false;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (outer.visible[i] && gpus->second.find('"' + units[i].key + '"') == std::string::npos) return false;
  return true;
}

plan::Selection select_of_machine(const Overview& overview, const model::Request& request) {
  std::vector<model::Unit> units;
  for (const UnitOverview& row : overview.units) units.push_back(row.unit);
  plan::Outer all;
  all.visible.assign(units.size(), true);
  return plan::eligible(request, overview.snapshot, units, all);
}

InUse in_use(const OuterClaim* around, const model::Request& request) {
  const bool whole = around && request.gpus == around->keys.size();
  if (!around || (!whole && !around->share_mib)) return {};
  return {true, around->share_mib};
}

}  // namespace thole::app
