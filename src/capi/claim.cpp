// Claims of the C ABI.
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "app/claim/claim_variables.hpp"
#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "base/without_signal.hpp"
#include "capi/handles.hpp"
#include "capi/request.hpp"
#include "model/json.hpp"

namespace thole::capi {

namespace {

std::vector<std::string> as_entries(const plan::Variables& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables.set) entries.push_back(name + "=" + value);
  entries.insert(entries.end(), variables.unset.begin(), variables.unset.end());
  return entries;
}

// The claim as JSON, in one line. The GPUs are JSON already, in THOLE_GPUS: parsing that only to write it again would be a
// tenth of a claim.
std::string as_json(const app::Acquired& acquired, const plan::Variables& variables) {
  const model::Json rest = {{"id", acquired.claim.id()},
                            {"explain", acquired.explain},
                            {"cautions", acquired.cautions},
                            {"environment", {{"set", variables.set}, {"unset", variables.unset}}}};
  std::string text = model::dump(rest, -1);
  const auto gpus = variables.set.find("THOLE_GPUS");
  text.insert(1, "\"gpus\":" + (gpus == variables.set.end() ? "[]" : gpus->second) + ",");
  return text;
}

std::vector<std::string> uuids_of(const app::Acquired& acquired) {
  std::vector<std::string> uuids;
  for (std::size_t unit : acquired.chosen) uuids.push_back(acquired.units[unit].key);
  return uuids;
}

bool is_ours(const model::Use& use, bool simulated) {
  const auto processes = use.processes.value_or({});
  return std::any_of(processes.begin(), processes.end(), [&](const model::GpuProcess& process) {
    return process.pid == ::getpid() && process.kind != model::GpuProcess::Kind::graphics && (process.watch || !simulated);
  });
}

// This process computes on a GPU: its runtime has read its variables, and it would wait for itself.
void refuse_if_started(const model::Snapshot& snapshot) {
  bool simulated = false;
  for (const model::Observation& observation : snapshot.observations) {
    if (observation.pids_foreign) return;  // somebody else has our number there
    simulated = simulated || observation.backend == "file";
  }
  for (std::size_t index = 0; index < snapshot.machine.gpus.size(); ++index) {
    const model::Gpu& gpu = snapshot.machine.gpus[index];
    const bool in_a_part = std::any_of(gpu.mig.begin(), gpu.mig.end(),
                                       [&](const model::Instance& instance) { return is_ours(instance.use, simulated); });
    if (in_a_part || is_ours(gpu.use, simulated))
      throw TooLate(Error(ErrorCode::usage, fmt::format("too late to claim: the driver shows this process on GPU {}", index))
                        .hint("claim before CUDA, HIP or Level Zero is started, or start the program with `thole run`"));
  }
}

// Becomes readable when a try has gone on for too long since it was started.
class TryAlarm {
 public:
  explicit TryAlarm(Millis after) : after_(after), timer_(above_standard(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC))) {
    if (!timer_) throw not_had("cannot watch the clock", errno);
  }
  int fd() const { return timer_.get(); }
  void start() {
    itimerspec alarm{};
    alarm.it_value = {static_cast<std::time_t>(after_.count() / 1000), static_cast<long>(after_.count() % 1000) * 1'000'000};
    ::timerfd_settime(timer_.get(), 0, &alarm, nullptr);
  }

 private:
  Millis after_;
  Fd timer_;
};

// A line; who has gone, or does not read, misses it: a full pipe that blocks is not waited for.
void tell(int fd, const model::Json& what) {
  const std::string line = model::dump(what, -1) + "\n";
  pollfd to{fd, POLLOUT, 0};
  if (::poll(&to, 1, 0) <= 0) return;
  const WithoutSignal unread(SIGPIPE), full(SIGXFSZ);
  (void)!::write(fd, line.data(), line.size());
}

// Has the caller told what `thole run` says of a wait: each caution, and once where it stands.
void tell_of_wait(app::AcquireOptions& options, int fd, const model::Request& request) {
  options.caution = [fd](const std::string& text) { tell(fd, {{"caution", text}}); };
  if (request.wait == Seconds{0}) return;
  options.waiting = [fd, &request, told = false](const app::Standing& standing) mutable {
    if (std::exchange(told, true)) return;
    try {
      tell(fd, as_told(standing.site, request, standing.wait));
    } catch (const Error&) {                     // what cannot be read now is no reason to stop waiting
      tell(fd, {{"why", model::Json::array()}});
    }
  };
}

}  // namespace

Strings::Strings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& string : strings_) pointers_.push_back(string.c_str());
  pointers_.push_back(nullptr);
}

}  // namespace thole::capi

thole_claim* thole_claim_gpus(thole_machine* machine, const char* request, int64_t wait_ms, int cancel_fd,
                              thole_error** error) {
  using namespace thole;
  return capi::guarded(error, [&] {
    capi::Wish wish = capi::read_wish(request, capi::given(machine, "machine").config);
    if (wait_ms != THOLE_AS_CONFIGURED) wish.request.wait.reset();
    if (wait_ms >= 0) wish.request.wait = Millis{wait_ms};
    app::AcquireOptions options;
    options.command = wish.command;
    options.own = wish.own;
    if (cancel_fd >= 0) options.cancel.push_back(cancel_fd);
    std::optional<capi::TryAlarm> alarm;
    if (wish.try_for) options.cancel.push_back(alarm.emplace(*wish.try_for).fd());
    options.looked = [&](const model::Snapshot& snapshot) {
      if (alarm) alarm->start();                 // how long the driver takes is not for a second try to take once more
      if (wish.not_started) capi::refuse_if_started(snapshot);
    };
    if (wish.tell) capi::tell_of_wait(options, *wish.tell, wish.request);

    capi::Wires::Lease wire(machine->wires);
    app::Site& site = wire->site();
    app::Acquired acquired = app::acquire(site, wish.request, options);
    plan::Variables variables = app::variables(site.observer, acquired, wish.request, wish.ids);
    std::string json = capi::as_json(acquired, variables);
    capi::Strings uuids(capi::uuids_of(acquired)), environment(capi::as_entries(variables));
    return new thole_claim{std::move(acquired), std::move(wish.request), wish.ids, std::move(json), std::move(variables),
                           std::move(uuids),    std::move(environment)};
  });
}

static const char* const none[] = {nullptr};

const char* thole_claim_json(const thole_claim* claim) { return claim ? claim->json.c_str() : ""; }
const char* thole_claim_id(const thole_claim* claim) { return claim ? claim->acquired.claim.id().c_str() : ""; }
const char* const* thole_claim_uuids(const thole_claim* claim) { return claim ? claim->uuids.array() : none; }
const char* const* thole_claim_environment(const thole_claim* claim) { return claim ? claim->environment.array() : none; }

int thole_claim_set_environment(const thole_claim* claim) {
  if (!claim) return -1;
  for (const auto& [name, value] : claim->variables.set)
    if (::setenv(name.c_str(), value.c_str(), 1) != 0) return -1;
  for (const std::string& name : claim->variables.unset) ::unsetenv(name.c_str());
  return 0;
}

void thole_claim_release(thole_claim* claim) {
  const thole::WithoutSignal full(SIGXFSZ);
  delete claim;
}
