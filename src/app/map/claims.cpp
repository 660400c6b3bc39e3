#include "app/map/claims.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "base/words.hpp"

namespace thole::app {

namespace {

Fd event_descriptor() {
  Fd fd(above_standard(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  if (!fd)
    throw not_had("cannot make a descriptor", errno);
  return fd;
}

void raise(const Fd& fd) {
  const std::uint64_t one = 1;
  (void)!::write(fd.get(), &one, sizeof one);
}

void clear(const Fd& fd) {
  std::uint64_t count;
  (void)!::read(fd.get(), &count, sizeof count);
}

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
    : site_(site), bind_(bind), wanted_(wanted), tasks_at_once_(tasks_at_once), events_(events), ready_(event_descriptor()),
      cancel_(event_descriptor()) {}

void LaneClaims::ask() {
  model::Request request = wanted_.request;
  if (!std::exchange(first_, false)) request.wait.reset();
  asked_ = true;
  const auto work = [this, request] {
    try {
      claim(request);
    } catch (...) {
      failure_ = std::current_exception();
    }
    site_.observer.rest();             // no probe of ours beside the tasks
    raise(ready_);
  };
  try {
    thread_ = std::thread(work);
  } catch (const std::system_error& refused) {
    failure_ = std::make_exception_ptr(thread_not_started(refused.code().value()));
    raise(ready_);
  }
}

void LaneClaims::claim(const model::Request& request) {
  AcquireOptions options;
  options.command = command_line(wanted_.argv);
  options.enforced = true;
  options.cancel = {cancel_.get()};
  options.looked = [&](const model::Snapshot& seen) { check_binding(seen.machine, wanted_.bind, request); };
  options.waiting = events_.waiting;
  options.caution = events_.caution;
  LaneGain gain;
  gain.acquired = acquire(site_, request, options);
  gain.variables = variables(site_, gain.acquired, request, wanted_.ids);
  gain.binding = binding_for(site_, bind_, wanted_.bind, gain.acquired, tasks_at_once_);
  if (gain.binding && events_.binding) events_.binding(*gain.binding);
  gain.most_units = most_units(site_.observer, request);
  if (events_.got) events_.got(gain.acquired);
  gain_ = std::move(gain);
}

void LaneClaims::withdraw() {
  if (!std::exchange(asked_, false)) return;
  raise(cancel_);
  if (thread_.joinable()) thread_.join();
  clear(cancel_);
  clear(ready_);
  gain_.reset();
  failure_ = nullptr;
}

LaneGain LaneClaims::take() {
  asked_ = false;
  if (thread_.joinable()) thread_.join();
  clear(ready_);
  if (auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  LaneGain gain = std::move(*gain_);
  gain_.reset();
  return gain;
}

}  // namespace thole::app
