#include "app/claim/claim_variables.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/taken_back.hpp"
#include "base/refusal.hpp"
#include "plan/place/free.hpp"

namespace thole::app {

namespace {

constexpr int most_of_the_time = 40;               // the time of a look is to that between two

[[noreturn]] void trouble(const std::string& gpu, const std::string& what) {
  throw DriverTrouble(Error(ErrorCode::unavailable, what).about("GPU " + gpu).hint("thole doctor"));
}

std::vector<std::size_t> chosen_now(const Observer& observer, const Acquired& acquired) {
  std::vector<std::string> keys;
  for (const std::size_t unit : acquired.chosen) keys.push_back(acquired.units[unit].key);
  return units_now(observer, keys);
}

// One that cannot be used would fail whatever begins on it.
void check_health(const Observer& observer, const Acquired& acquired, const model::Request& request) {
  for (const std::size_t unit : chosen_now(observer, acquired)) {
    const auto ill = plan::illness(observer.units()[unit].gpu_of(observer.snapshot().machine), request);
    if (ill && ill->standing == plan::Standing::sick) trouble(observer.units()[unit].label, ill->why);
  }
}

}  // namespace

std::vector<std::size_t> units_now(const Observer& observer, const std::vector<std::string>& keys) {
  std::vector<std::size_t> units;
  for (const std::string& key : keys) {
    const auto unit = model::index_of(key, observer.units());
    const auto& gpus = observer.snapshot().machine.gpus;
    const bool is_gpu = std::ranges::any_of(gpus, [&](const model::Gpu& gpu) { return gpu.key() == key; });
    if (!unit) trouble(key, is_gpu ? "it has been partitioned since it was claimed" : "the driver no longer lists it");
    units.push_back(*unit);
  }
  return units;
}

plan::Variables variables(const Observer& observer, const Acquired& acquired, const model::Request& request, plan::Ids ids) {
  const model::Snapshot& snapshot = observer.snapshot();
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
  return plan::environment(chosen_now(observer, acquired), observer.units(), snapshot, told, ids, certain, acquired.claim.id());
}

std::optional<plan::Variables> lasting_variables(const Observer& observer, const Acquired& acquired,
                                                 const model::Request& request) {
  const std::vector<std::size_t> units = chosen_now(observer, acquired);
  if (!plan::have_lasting_names(units, observer.units(), observer.snapshot().machine)) return std::nullopt;
  return variables(observer, acquired, request, plan::Ids::uuid);
}

const Observer* ListNow::seen() const {
  if (failed_) return nullptr;
  return seen_ ? seen_.get() : &site_.observer;
}

void ListNow::look(const Told& last) {
  port::Numbering numbering = site_.observer.numbering();
  const SteadyTime now = site_.clock.steady();
  const bool since = looks_ > 0 && looked_ >= last.at;
  const bool same = numbering.text == (since ? numbering_ : last.numbering);
  const bool settled = numbering.tells_all && !(since && failed_);
  if (same && (settled || now < (since ? looked_ : last.at) + pause_)) return;
  try {
    failed_ = false;
    if (site_.look_anew) seen_ = site_.look_anew();
  } catch (const Error&) {
    failed_ = true;
  }
  looked_ = site_.clock.steady();
  pause_ = std::max(least_pause, std::chrono::ceil<Millis>(most_of_the_time * (looked_ - now)));
  numbering_ = std::move(numbering.text);
  ++looks_;
}

ClaimVariables::ClaimVariables(const Site& site, const Acquired& acquired, const model::Request& request, plan::Ids ids)
    : request_(request), ids_(ids), told_{site.observer.numbering_seen(), site.clock.steady()},
      variables_(variables(site.observer, acquired, request, ids)) {
  if (ids != plan::Ids::index) by_name_ = lasting_variables(site.observer, acquired, request);
}

bool ClaimVariables::renew(ListNow& list, const Acquired& acquired) {
  if (acquired.chosen.empty()) return false;
  list.look(told_);
  refuse_taken_back(acquired);                   // a driver may take its time
  if (list.looks() == as_of_ || list.looked() < told_.at) return false;
  plan::Variables others;
  if (const Observer* seen = list.seen()) {
    check_health(*seen, acquired, request_);
    others = variables(*seen, acquired, request_, ids_);
  } else if (by_name_) {
    others = *by_name_;
  } else {
    trouble(acquired.units[acquired.chosen.front()].label, "the driver does not tell which number it has now");
  }
  as_of_ = list.looks();
  return std::exchange(variables_, std::move(others)) != variables_;
}

}  // namespace thole::app
