#include "app/map/claims.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/selection.hpp"
#include "base/error.hpp"
#include "base/printable_lines.hpp"
#include "base/refusal.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

namespace thole::app {

namespace {

constexpr Millis ask_again{1'000};

std::size_t most_units(const Observer& observer, const model::Request& request) {
  const auto& units = observer.units();
  if (request.on.empty()) return units.size();
  std::vector<bool> named(units.size());
  for (const std::string& word : request.on)
    for (const std::size_t unit : plan::resolve(word, observer.snapshot(), units)) named[unit] = true;
  return static_cast<std::size_t>(std::count(named.begin(), named.end(), true));
}

}  // namespace

LaneClaims::LaneClaims(Site& site, BindSite bind, const RunRequest& wanted, unsigned tasks_at_once, const RunEvents& events)
    : site_(site), bind_(bind), wanted_(wanted), tasks_at_once_(tasks_at_once), events_(events) {}

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
    check_binding(seen.machine, wanted_.bind, request);
    if (lasting_) return;
    lasting_ = by_lasting_names(request, site_);
    most_units_ = most_units(site_.observer, request);
  };
  options.allotted = allotted_;
  options.waiting = events_.waiting;
  options.caution = events_.caution;
  LaneGain gain;
  gain.acquired = acquire_in_the_end(request, options);
  if (!allotted_) allotted_ = gain.acquired.allotted;
  gain.variables = ClaimVariables(site_, gain.acquired, request, wanted_.ids);
  gain.binding = binding_for(site_, bind_, wanted_.bind, gain.acquired, tasks_at_once_);
  if (gain.binding && events_.binding) events_.binding(*gain.binding);
  gain.most_units = most_units_;
  if (events_.got) events_.got(gain.acquired);
  gain_ = std::move(gain);
}

// What the first lane could have may be out of the driver's list for a moment.
Acquired LaneClaims::acquire_in_the_end(const model::Request& request, const AcquireOptions& options) {
  const bool could_be_had = lasting_.has_value();
  model::Request asked = request;
  for (std::string told;;) try {
      return acquire(site_, asked, options);
    } catch (const Error& error) {
      const bool may_pass = error.code() == ErrorCode::usage || dynamic_cast<const DriverTrouble*>(&error);
      if (!could_be_had || !may_pass) throw;
      if (std::exchange(told, in_one_line(error.full())) != told && events_.caution)
        events_.caution(told + "; asked for again until that changes");
      const SteadyTime now = site_.clock.steady();
      const int cancel[] = {cancel_.fd()};
      const auto ready = wait_for(cancel, now + ask_again, now);
      if (ready && ready->front()) throw Error(ErrorCode::interrupted, "the wait was interrupted");
      asked.on = those_there(request.on, site_);   // they will do, if they are enough
      if (asked.on.empty()) asked.on = request.on;
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
