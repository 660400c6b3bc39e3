#include "app/map/claims.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/selection.hpp"
#include "base/error.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

namespace thole::app {

namespace {

std::size_t most_units(const Observer& observer, const model::Request& request) {
  const auto& units = observer.units();
  if (request.on.empty()) return units.size();
  std::vector<bool> named(units.size());
  for (const std::string& word : request.on)
    for (const std::size_t unit : plan::resolve(word, observer.snapshot(), units)) named[unit] = true;
  return static_cast<std::size_t>(std::count(named.begin(), named.end(), true));
}

}  // namespace

LaneClaims::LaneClaims(Site& site, BindSite bind, Aside& aside, const RunRequest& wanted, unsigned tasks_at_once,
                       const RunEvents& events)
    : site_(site), bind_(bind), work_(aside), wanted_(wanted), tasks_at_once_(tasks_at_once), events_(events) {}

void LaneClaims::ask() {
  model::Request request = lasting_.value_or(wanted_.request);
  if (!std::exchange(first_, false)) request.wait.reset();
  asked_ = true;
  work_.begin([this, request] {
    struct Rest {                      // no probe of ours beside the tasks
      Observer& observer;
      ~Rest() { observer.rest(); }
    } rest{site_.observer};
    claim(request);
  });
}

void LaneClaims::claim(const model::Request& request) {
  AcquireOptions options;
  options.command = command_line(wanted_.argv);
  options.enforced = true;
  options.cancel = {cancel_.fd()};
  options.looked = [&](const model::Snapshot& seen) {
    if (lasting_) return;
    check_binding(seen.machine, wanted_.bind, request);
    lasting_ = by_lasting_names(request, site_);
    most_units_ = most_units(site_.observer, request);
  };
  options.allotted = allotted_;
  options.had = had_;                  // by the first lane: it may be out of the driver's list for a moment
  options.waiting = events_.waiting;
  options.caution = events_.caution;
  LaneGain gain = gained(request, options);
  if (!had_) allotted_ = gain.acquired.allotted, had_ = gain.acquired.would_do;
  gain.binding = binding_for(site_, bind_, wanted_.bind, gain.acquired, tasks_at_once_);
  if (gain.binding && events_.binding) events_.binding(*gain.binding);
  gain.most_units = most_units_;
  if (events_.got) events_.got(gain.acquired);
  gain_ = std::move(gain);
}

LaneGain LaneClaims::gained(const model::Request& request, const AcquireOptions& options) {
  for (;;) {
    LaneGain gain;
    gain.acquired = acquire(site_, request, options);
    try {
      gain.variables = ClaimVariables(site_, gain.acquired, request, wanted_.ids);
      return gain;
    } catch (const DriverTrouble&) {
      if (!had_) throw;                // it has left the list in that moment, and is waited for in line
    }
  }
}

void LaneClaims::withdraw() {
  if (!std::exchange(asked_, false)) return;
  cancel_.ring();
  (void)work_.end();
  cancel_.silence();
  gain_.reset();
}

LaneGain LaneClaims::take() {
  asked_ = false;
  if (const auto failure = work_.end()) std::rethrow_exception(failure);
  LaneGain gain = std::move(*gain_);
  gain_.reset();
  return gain;
}

}  // namespace thole::app
