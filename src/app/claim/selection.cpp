#include "app/claim/selection.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "app/claim/claim_variables.hpp"
#include "base/refusal.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"
#include "plan/environment/told.hpp"

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

plan::Outer outer_of(const Site& site, const OuterClaim* within) {
  const auto& snapshot = site.observer.snapshot();
  const auto& units = site.observer.units();
  return within ? plan::outer_allotment(snapshot, units, plan::masks_alone(site.environment), true)
                : plan::outer_allotment(snapshot, units, site.environment);
}

}  // namespace

std::optional<Allotment> allotted(const Site& site, const OuterClaim* within) {
  const auto& units = site.observer.units();
  const plan::Outer outer = outer_of(site, within);
  if (outer.named_by.empty()) return std::nullopt;
  Allotment keys;
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    if (outer.visible[unit]) keys.insert(units[unit].key);
  return keys;
}

plan::Selection select(const Site& site, const model::Request& request, const OuterClaim* within,
                       const std::optional<Allotment>& allotted) {
  const auto& snapshot = site.observer.snapshot();
  const auto& units = site.observer.units();
  plan::Outer outer = outer_of(site, within);
  outer.shell = site.shell;
  if (allotted)
    for (std::size_t i = 0; i < units.size(); ++i) outer.visible[i] = allotted->contains(units[i].key);
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
    if (within && request.gpus <= within->keys.size()) (void)units_now(site.observer, within->keys);   // is one away?
    if (within || !shows_a_claim_alone(site.environment, units, outer) || !would_do(request, snapshot, units)) throw;
    throw NeverPossible(Error(error.code(), error.what()).about(error.object())
                            .hint(fmt::format("{}\nif the claim of this shell has ended:\n{}", error.hint(),
                                              unset_claim_in(site.shell))));
  }
}

model::Request by_lasting_names(model::Request request, const Site& site) {
  for (std::vector<std::string>* words : {&request.on, &request.not_on, &request.order})
    for (std::string& word : *words)
      word = plan::lasting_name(word, site.observer.snapshot(), site.observer.units());
  return request;
}

std::vector<std::string> those_there(std::vector<std::string> names, const Site& site) {
  std::erase_if(names, [&](const std::string& name) {
    try {
      return plan::resolve(name, site.observer.snapshot(), site.observer.units()).empty();
    } catch (const Error&) {
      return true;
    }
  });
  return names;
}

model::Request of_those_there(model::Request request, const Site& site) {
  if (auto on = those_there(request.on, site); !on.empty()) request.on = std::move(on);
  request.not_on = those_there(std::move(request.not_on), site);
  request.order = those_there(std::move(request.order), site);
  return request;
}

bool shows_a_claim_alone(const plan::Environment& environment, const std::vector<model::Unit>& units,
                         const plan::Outer& outer) {
  const auto claim = environment.find("THOLE_CLAIM");
  const auto told = plan::ToldGpus::read(environment);
  if (claim == environment.end() || claim->second.empty() || !told || outer.named_by.empty()) return false;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (outer.visible[i] && std::ranges::count(told->keys(), units[i].key) == 0) return false;
  return true;
}

plan::Selection select_of_machine(const Overview& overview, const model::Request& request) {
  std::vector<model::Unit> units;
  for (const UnitOverview& row : overview.units) units.push_back(row.unit);
  plan::Outer all;
  all.visible.assign(units.size(), true);
  return plan::eligible(request, overview.snapshot, units, all);
}

std::vector<std::size_t> eligible_units(const Site& site, const model::Request& request, plan::Selection selection,
                                        const OuterClaim* within) {
  const auto& snapshot = site.observer.snapshot();
  const auto& units = site.observer.units();
  std::vector<std::size_t> eligible = std::move(selection.units);
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // and whose they are
  std::size_t healthy = 0;
  const std::size_t would_do = eligible.size();
  const auto is_taken = [&](std::size_t unit) { return within && within->has_lost(units[unit].key); };
  for (std::size_t unit : eligible) {
    const model::Gpu& gpu = units[unit].gpu_of(snapshot.machine);
    const auto ill = plan::illness(gpu, request);
    const bool taken = is_taken(unit);
    if (!taken && (!ill || (request.trust_claims && ill->standing != plan::Standing::sick))) {
      ++healthy;
      continue;
    }
    const std::string why = taken ? taken_back_text("it")
                            : gpu.health == model::Health::ok
                                ? ill->why
                                : fmt::format("{}{}{}", model::to_string(gpu.health), gpu.health_reason.empty() ? "" : ", ",
                                              printable(gpu.health_reason, 200));
    const auto same = std::ranges::find(reasons, why, &decltype(reasons)::value_type::first);
    if (same != reasons.end()) same->second.push_back(units[unit].label);
    else reasons.push_back({why, {units[unit].label}});
  }
  std::string sick;
  for (const auto& [why, labels] : reasons)
    sick += fmt::format("\n  GPU{} {}: {}", labels.size() == 1 ? "" : "s", join(labels, ", "), why);
  if (healthy < request.gpus)
    throw DriverTrouble(Error(ErrorCode::unavailable, fmt::format("{} asked for, {} of {} that would do can be used{}",
                                                                  request.describe(), healthy, would_do, sick))
                            .hint("thole doctor"));
  std::erase_if(eligible, is_taken);
  // Others need not wait for who could never have it.
  if (request.share)
    std::erase_if(eligible, [&](std::size_t unit) { return plan::admits_one_process(units[unit].gpu_of(snapshot.machine)); });
  std::sort(eligible.begin(), eligible.end());
  return eligible;
}

bool is_lost(const Site& site, const plan::Selection& selection, const OuterClaim& within) {
  const auto& units = site.observer.units();
  std::size_t left = 0;
  for (const std::size_t unit : selection.units) left += !within.has_lost(units[unit].key);
  for (const std::string& key : within.keys) left += !within.has_lost(key) && !model::index_of(key, units);
  return left < selection.count;
}

std::string late_ones(const Site& site, const model::Request& request, const plan::Selection& selection) {
  if (request.trust_claims) return "";
  std::size_t healthy = 0;
  std::vector<std::string> late;
  for (std::size_t unit : selection.units) {
    const model::Gpu& gpu = site.observer.units()[unit].gpu_of(site.observer.snapshot().machine);
    if (gpu.health == model::Health::ok) ++healthy;
    else if (gpu.health == model::Health::hung) late.push_back(site.observer.units()[unit].label);
  }
  const bool enough = healthy >= selection.count, would_be = healthy + late.size() >= selection.count;
  return !enough && would_be ? fmt::format("GPU{} {}", late.size() == 1 ? "" : "s", join(late, ", ")) : "";
}

InUse in_use(const OuterClaim* around, const model::Request& request) {
  const bool whole = around && request.gpus == around->keys.size();
  if (!around || (!whole && !around->share_mib)) return {};
  return {true, around->share_mib};
}

}  // namespace thole::app
