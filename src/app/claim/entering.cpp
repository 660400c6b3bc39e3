#include "app/claim/entering.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/selection.hpp"
#include "base/text.hpp"
#include "plan/place/place.hpp"

namespace thole::app {

bool reuses(const OuterClaim* around, const model::Request& request) {
  return around && request.gpus == around->keys.size() && !request.share;
}

Acquired reuse(const Site& site, const OuterClaim& outer, std::vector<std::size_t> units) {
  Acquired whole;
  whole.claim = port::Claim(port::Claim::State::reused, {.id = outer.id, .keys = outer.keys, .locks = {}});
  whole.units = site.observer.units();
  whole.chosen = std::move(units);
  whole.would_do = {outer.keys.begin(), outer.keys.end()};
  whole.explain = fmt::format("all of claim {}, which this runs inside", outer.id);
  return whole;
}

std::vector<std::string> keys_of(const Site& site, const std::vector<std::size_t>& units) {
  std::vector<std::string> keys;
  for (std::size_t unit : units) keys.push_back(site.observer.units()[unit].key);
  return keys;
}

port::Entry entry_for(const model::Request& request, const AcquireOptions& options, std::vector<std::string> keys) {
  port::Entry entry;
  static_cast<model::Terms&>(entry) = request.terms();
  entry.id = options.id.empty() ? fresh_claim_id() : options.id;
  entry.eligible = std::move(keys);
  entry.command = options.command;
  entry.needs_note = !options.keeps_around;
  entry.cancel = options.cancel;
  entry.caution = options.caution;
  return entry;
}

std::vector<std::size_t> numbered(const Site& site, model::Request request, bool inside,
                                  std::vector<std::size_t> chosen) {
  if (chosen.size() < 2 || (request.order.empty() && !inside)) return chosen;
  const auto& snapshot = site.observer.snapshot();
  const auto& units = site.observer.units();
  request.order = those_there(std::move(request.order), site);
  std::vector<std::size_t> order = plan::preferences(request, snapshot, units);
  if (request.order.empty()) {
    const std::vector<std::size_t> around = plan::outer_allotment(snapshot, units, site.environment, inside).order;
    for (std::size_t i = 0; i < around.size(); ++i) order[around[i]] = i;
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) { return order[a] < order[b]; });
  return chosen;
}

}  // namespace thole::app
