#include "host/gpu/nvidia/placeholder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/claims/safe_gpu_lock.hpp"
#include "host/process/helpers.hpp"
#include "host/process/spawn_tables.hpp"

namespace thole::host {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int end_patience_ms = 2'000;

// Only the claimed GPUs, numbered as everywhere, and nothing loaded that is not needed for a context.
std::vector<std::string> environment(const std::vector<std::string>& uuids) {
  std::vector<std::string> words;
  for (char** at = environ; *at; ++at)
    if (const std::string_view word = *at; !word.starts_with("CUDA_VISIBLE_DEVICES=") &&
                                           !word.starts_with("CUDA_DEVICE_ORDER=") && !word.starts_with("CUDA_MODULE_LOADING="))
      words.emplace_back(word);
  words.push_back("CUDA_VISIBLE_DEVICES=" + join(uuids, ","));
  words.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  words.emplace_back("CUDA_MODULE_LOADING=LAZY");
  return words;
}

}  // namespace

std::shared_ptr<void> NvidiaPlaceholder::alone(std::span<const int> cancel) {
  const SteadyTime end = std::chrono::steady_clock::now() + options_.patience;
  for (;;) {
    auto lock = std::make_shared<SafeGpuLock>(options_.neighbours, nullptr);
    const auto left = std::chrono::duration_cast<Millis>(end - std::chrono::steady_clock::now());
    if (!lock->kept() || left <= Millis{0}) return lock;
    lock.reset();
    wait_for_safe_gpu(options_.neighbours, left, nullptr, cancel);
  }
}

void NvidiaPlaceholder::put(const std::vector<std::string>& uuids) {
  end();
  start(uuids);
  const std::string said = answer();
  if (said == "ready") return;
  end();
  throw Error(ErrorCode::unavailable, said.empty() ? "the CUDA library does not answer, or crashed" : printable(said));
}

void NvidiaPlaceholder::start(const std::vector<std::string>& uuids) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw not_started("the placeholder", errno);
  Fd ours(above_standard(ends[0])), theirs(above_standard(ends[1]));
  theirs = Fd(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, 10));  // a source of dup2 must not be its target
  std::vector<std::string> words{options_.name, "__placeholder", options_.cuda_path}, variables = environment(uuids);
  words.insert(words.end(), uuids.begin(), uuids.end());
  SpawnTables t;
  ::posix_spawn_file_actions_addopen(&t.actions, 0, "/dev/null", O_RDONLY, 0);
  for (int standard : {1, 2}) ::posix_spawn_file_actions_addopen(&t.actions, standard, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&t.actions, theirs.get(), placeholder_channel_fd);
  const int failed = ::posix_spawn(&pid_, options_.program.c_str(), &t.actions, &t.attributes, pointers(words).data(),
                                   pointers(variables).data());
  if (failed) {
    pid_ = 0;
    throw not_started("the placeholder", failed).about(options_.program);
  }
  channel_ = std::move(ours);
}

std::string NvidiaPlaceholder::answer() const {
  const SteadyTime deadline = Clock::now() + options_.patience;
  std::string line;
  for (;;) {
    if (!is_readable_by(channel_.get(), deadline)) return "";
    char bytes[512];
    const ssize_t n = ::recv(channel_.get(), bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return "";
    line.append(bytes, static_cast<std::size_t>(n));
    if (const std::size_t end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
  }
}

void NvidiaPlaceholder::end() {
  if (pid_ == 0) return;
  const pid_t pid = std::exchange(pid_, 0);
  Fd alive = open_pidfd(pid);
  channel_.reset();
  kill_child(pid);
  pollfd watched{alive.get(), POLLIN, 0};
  if (alive) ::poll(&watched, 1, end_patience_ms);
  ::waitpid(pid, nullptr, WNOHANG);
}

}  // namespace thole::host
