#include <algorithm>
#include <utility>

#include "app/claim/acquire.hpp"
#include "base/refusal.hpp"

namespace thole::app {

plan::Variables variables(const Observer& observer, const Acquired& acquired, const model::Request& request, plan::Ids ids) {
  const model::Snapshot& snapshot = observer.snapshot();
  const std::vector<model::Unit>& units = observer.units();          // a look since may have numbered them anew
  std::vector<std::size_t> chosen;
  for (const std::size_t unit : acquired.chosen) {
    const std::string& key = acquired.units[unit].key;
    const auto now = model::index_of(key, units);
    if (!now)
      throw DriverTrouble(Error(ErrorCode::unavailable, "the driver no longer lists it").about("GPU " + key)
                              .hint("thole doctor"));
    chosen.push_back(*now);
  }
  // Indices are certain when every GPU of the machine answered and none is partitioned: the driver then numbers what we number.
  const auto& gpus = snapshot.machine.gpus;
  const bool certain = std::all_of(gpus.begin(), gpus.end(), [](const model::Gpu& gpu) {
    return gpu.health == model::Health::ok && !gpu.mig_mode && gpu.mig.empty();
  });
  model::Request told = request;
  if (acquired.share_mib) {                  // who claims within a share without a figure has all of it
    told.memory_mib = request.share ? std::min(request.memory_mib.value_or(0), *acquired.share_mib) : *acquired.share_mib;
    told.share = true;
  }
  return plan::environment(chosen, units, snapshot, told, ids, certain, acquired.claim.id());
}

ClaimVariables::ClaimVariables(const Site& site, const Acquired& acquired, const model::Request& request, plan::Ids ids)
    : request_(request), ids_(ids), numbering_(site.observer.numbering_seen()),
      variables_(variables(site.observer, acquired, request, ids)) {}

bool ClaimVariables::renew(const Site& site, const Acquired& acquired) {
  if (acquired.chosen.empty() || site.observer.numbering() == numbering_) return false;
  std::unique_ptr<Observer> anew;
  try {
    if (site.look_anew) anew = site.look_anew();
  } catch (const Error&) {
    return false;                                // what cannot be read says nothing; the next time it is asked again
  }
  const Observer& seen = anew ? *anew : site.observer;
  const auto is_troubled = [](const model::Observation& one) { return !one.problem.empty(); };
  try {
    plan::Variables others = variables(seen, acquired, request_, ids_);
    numbering_ = seen.numbering_seen();
    return std::exchange(variables_, std::move(others)) != variables_;
  } catch (const DriverTrouble&) {
    if (std::ranges::any_of(seen.snapshot().observations, is_troubled)) return false;
    throw;
  }
}

}  // namespace thole::app
