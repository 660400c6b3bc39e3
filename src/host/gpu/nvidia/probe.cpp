// How this works. The main thread never calls the library: it waits for requests and for the parent's death, so that it can
// leave whatever a worker is stuck in. Workers take steps off a list: begin (load, initialise, count), one identity and then
// one use per GPU (or nothing but the accounts of some), and last a look at GPUs that the library omits. There is one worker as
// long as steps get done; when none has been for `overtake_after_ms`, another is started beside it, so that one hung GPU costs
// only itself if the library lets others pass. Only complete answers end with "."; a parent that gets no end in time keeps what
// it has read and kills this process, or leaves it at work.
//
// A driver whose GPUs nobody uses needs seconds to come up, for every first user anew. So a probe whose parent hangs up before
// the first GPU was read does not leave: it goes on, for a minute at most, holds the lock that tells other runs so, and
// stays for some seconds when it is through. Whoever asks next finds the driver awake.
#include "host/gpu/nvidia/probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/standard.hpp"
#include "base/time.hpp"
#include "host/gpu/nvidia/read.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {
namespace {

constexpr int overtake_after_ms = 250;
constexpr int leave_after_ms = 10'000;                     // idle: nobody asks any more
constexpr int listen_after_ms = 200;                       // who asks only once has gone by then
constexpr Seconds come_up_within{60};                      // for a driver that nobody waits for any more
constexpr unsigned most_gpus = 256;

struct Step {
  enum class Kind { begin, identity, use, accounts, unlisted } kind;
  std::uint32_t gpu = 0;                                   // of accounts: position in the request
};

// One probe process's state. Lives as long as the process: workers that hang may come back at any time.
class Serving {
 public:
  explicit Serving(ProbeChannel channel)
      : channel_(std::move(channel)), progress_(above_standard(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {}

  [[noreturn]] void serve() {
    for (;;) {
      if (auto line = channel_.next_line()) answer(*line);
      else if (!wait_for_input(leave_after_ms) || !channel_.fill()) ::_exit(0);
    }
  }

 private:
  bool wait_for_input(int timeout_ms) {
    pollfd p{channel_.read_fd(), POLLIN, 0};
    return ::poll(&p, 1, timeout_ms) > 0;
  }

  // Starts the work on a request and stays until its end has been sent.
  void answer(const std::string& line) {
    {
      std::lock_guard guard(mutex_);
      request_ = ProbeRequest::parse(line);
      steps_ = {{Step::Kind::begin}};
      late_steps_.clear();
      listed_.clear();
      unfinished_ = 1;
      finished_ = false;
    }
    start_worker();
    const SteadyTime begun = std::chrono::steady_clock::now();
    bool alone = false;                                    // the parent has hung up
    while (!finished()) {
      pollfd p[2] = {{progress_.get(), POLLIN, 0}, {alone ? -1 : channel_.read_fd(), POLLIN, 0}};
      int ready = ::poll(p, 2, overtake_after_ms);
      if (ready == 0) start_worker();
      if (!alone && p[1].revents && !channel_.fill()) {
        alone = true;
        if (any_gpu_read_) ::_exit(0);
      }
      if (alone && (any_gpu_read_ || std::chrono::steady_clock::now() - begun > come_up_within)) break;
      std::uint64_t count;
      if (p[0].revents) (void)!::read(progress_.get(), &count, sizeof count);
    }
    if (!alone) return;
    if (!any_gpu_read_) ::_exit(0);
    ::close(lock_fd_in_probe);                             // the driver is up: others may ask
    ::poll(nullptr, 0, leave_after_ms);
    ::_exit(0);
  }

  bool finished() {
    std::lock_guard guard(mutex_);
    return finished_;
  }

  void start_worker() {
    {
      std::lock_guard guard(mutex_);
      if (steps_.empty() && late_steps_.empty()) return;   // all that is left is being waited for
      try {
        return std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) {                 // no further thread is to be had: this one does it
      }
    }
    work();
  }

  void work() {
    while (auto step = take()) {
      const bool to_listen = do_step(*step);
      std::uint64_t one = 1;
      (void)!::write(progress_.get(), &one, sizeof one);
      if (!to_listen) continue;
      ::poll(nullptr, 0, listen_after_ms);
      source_->listen();                         // after all of the answer, and whatever is asked meanwhile
    }
  }

  std::optional<Step> take() {
    std::lock_guard guard(mutex_);
    auto& list = steps_.empty() ? late_steps_ : steps_;
    if (list.empty()) return std::nullopt;
    Step step = list.front();
    list.pop_front();
    return step;
  }

  // True: the answer is whole, and events are to be listened for.
  bool do_step(Step step) {
    switch (step.kind) {
      case Step::Kind::begin: begin(); break;
      case Step::Kind::identity: identity(step.gpu); break;
      case Step::Kind::use: use(step.gpu); break;
      case Step::Kind::accounts: accounts(request_.accounts_of[step.gpu]); break;
      case Step::Kind::unlisted: unlisted(); break;
    }
    std::lock_guard guard(mutex_);
    --unfinished_;
    if (unfinished_ > 0) return false;
    if (step.kind != Step::Kind::unlisted) {
      ++unfinished_;
      steps_.push_back({Step::Kind::unlisted});
      return false;
    }
    channel_.end_answer();
    finished_ = true;
    return source_ && request_.events && request_.accounts_of.empty();
  }

  void begin() {
    RawDriver driver;
    if (!source_) {
      auto loaded = load(request_.nvml_path);
      if (auto* failure = std::get_if<LoadFailure>(&loaded)) {
        driver.load_error = failure->why;
        driver.stub_library = failure->found;
      } else {
        source_ = std::make_unique<Source>(std::move(std::get<Library>(loaded)));
      }
    }
    if (source_) driver = source_->begin(request_);
    channel_send(to_line(driver));
    if (!driver.count) return;
    std::lock_guard guard(mutex_);
    if (request_.accounts_of.empty()) {
      for (std::uint32_t i = 0; i < std::min(driver.count.value, most_gpus); ++i)
        if (wanted(i)) list_for(i).push_back({Step::Kind::identity, i});
    } else {
      for (std::uint32_t i = 0; i < request_.accounts_of.size(); ++i) steps_.push_back({Step::Kind::accounts, i});
    }
    unfinished_ += steps_.size() + late_steps_.size();
  }

  void identity(std::uint32_t gpu) {
    channel_send(begin_line(gpu));
    RawIdentity raw = source_->identity(gpu, request_);
    channel_send(to_line(raw));
    any_gpu_read_ = true;
    std::lock_guard guard(mutex_);
    if (raw.pci) listed_.push_back(raw.pci.value);
    if (raw.handle != abi::ok) return;
    list_for(gpu).push_back({Step::Kind::use, gpu});
    ++unfinished_;
  }

  void use(std::uint32_t gpu) {
    channel_send(begin_line(gpu));
    channel_send(to_line(source_->use(gpu, request_.purpose, !request_.only.empty())));
  }

  void accounts(const std::string& uuid) { channel_send(to_line(source_->accounts(uuid, request_.since_us))); }

  bool wanted(std::uint32_t gpu) const {
    return request_.only.empty() || std::find(request_.only.begin(), request_.only.end(), gpu) != request_.only.end();
  }

  std::deque<Step>& list_for(std::uint32_t gpu) {
    return std::find(request_.last.begin(), request_.last.end(), gpu) == request_.last.end() ? steps_ : late_steps_;
  }

  // Opening its node tells a GPU that a device cgroup keeps from us from one that fell off the bus.
  void unlisted() {
    for (const ProbeRequest::Node& node : request_.nodes) {
      bool listed = std::any_of(listed_.begin(), listed_.end(), [&](const std::string& pci) {
        return model::PciAddress::parse(pci) == model::PciAddress::parse(node.pci);
      });
      if (listed || !source_ || node.path.empty() || !request_.only.empty()) continue;
      Fd fd = open_at(AT_FDCWD, node.path.c_str(), O_RDWR | O_NONBLOCK);
      channel_send(to_line(RawUnlisted{node.pci, fd ? 0 : errno}));
    }
  }

  void channel_send(const std::string& line) {
    std::lock_guard guard(sending_);
    channel_.send(line);
  }

  ProbeChannel channel_;
  Fd progress_;
  std::unique_ptr<Source> source_;
  std::atomic<bool> any_gpu_read_{false};                  // since this process began: the driver is up
  std::mutex sending_;

  std::mutex mutex_;                                       // guards what follows
  ProbeRequest request_;
  std::deque<Step> steps_, late_steps_;
  std::vector<std::string> listed_;
  std::size_t unfinished_ = 0;
  bool finished_ = false;
};

}  // namespace

int serve_probe(ProbeChannel channel) {
  try {
    (new Serving(std::move(channel)))->serve();            // never destroyed: see Serving
  } catch (const std::exception&) {
    ::_exit(70);                                           // a request that is none; the parent sees the end of the answer
  }
}

}  // namespace thole::host::nvidia
