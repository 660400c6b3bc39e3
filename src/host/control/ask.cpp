#include "host/control/ask.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "base/same_file.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "base/words.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/guard.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/control/door.hpp"
#include "host/control/received.hpp"
#include "host/process/open_files.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr std::size_t longest_reply = 4096;
constexpr std::uint64_t longest_left = 86'400'000;   // ms of an answer: a day
constexpr Millis to_connect{5'000};   // an honest keeper's queue of connections is never full for long

// The process that the note names, where it is the owner's and has a lock: what is noted may be anything.
std::optional<pid_t> noted_keeper(const port::ClaimAddress& claim, uid_t owner) {
  const bool is_his = claim.pid > 0 && user_of(claim.pid) == owner && has_locked_fifo(claim.pid);
  return is_his ? std::optional(claim.pid) : std::nullopt;
}

[[noreturn]] void silent(const port::ClaimAddress& claim, uid_t owner) {
  const auto keeper = noted_keeper(claim, owner);
  throw Error(ErrorCode::unavailable, "the claim's keeper does not answer").about(claim.directory)
      .hint("it may wait for what it has told to end, or be stopped: kill -CONT " +
            (keeper ? std::to_string(*keeper) : "its pid, which `thole status GPU` shows"));
}

// A keeper that was killed leaves his directory, named by the claim; what he has started may have the locks still.
[[noreturn]] void killed(const std::string& claim, uid_t owner) {
  const std::string end = ways_to_end(claim, owner);
  throw port::NobodyToAsk(
      Error(ErrorCode::unavailable, fmt::format("the supervisor of claim {} was killed", claim))
          .hint(end.empty() ? "thole status shows who has its GPUs" : "what it had started keeps the GPUs; to end it:" + end),
      true);
}

// Without a socket nobody can be asked: a job's claim has none, nor has one whose keeper could not make it, or has let go.
[[noreturn]] void no_keeper(const port::ClaimAddress& claim, uid_t owner) {
  const std::string end = ways_to_end(claim.id, owner);
  const auto keeper = noted_keeper(claim, owner);
  const std::string by = keeper ? fmt::format("it is kept by {}: kill {} ends it", describe_process(*keeper), *keeper)
                                : "thole status shows whose it is";
  throw port::NobodyToAsk(
      Error(ErrorCode::unavailable, fmt::format("nobody who keeps claim {} can be asked", claim.id))
          .hint(end.empty() ? by + "; a job's ends with the job: thole jobs"
                            : "what was started in it keeps the GPUs; to end it:" + end), false);
}

// The socket in the directory of whose the claim is, and kept by him: root asks in others' directories, where a link could lead
// to anybody's.
Fd socket_in(const Fd& folder, uid_t owner, const port::ClaimAddress& claim) {
  Fd node = open_at(folder.get(), "control", O_PATH | O_NOFOLLOW);
  struct stat found;
  if (!node && errno == ENOENT) no_keeper(claim, owner);
  if (!node || ::fstat(node.get(), &found) != 0)
    throw Error(ErrorCode::unavailable, "cannot look at the socket of the claim's keeper").about(claim.directory)
        .because(errno).hint(mend_of_want(errno));
  if (!S_ISSOCK(found.st_mode) || found.st_uid != owner)
    throw Error(ErrorCode::unavailable, "this is not the socket of the claim's owner").about(claim.directory + "/control");
  return node;
}

Fd directory_of_keeper(const port::ClaimAddress& claim) {
  try {
    return open_claim_directory(claim.directory, false);
  } catch (const Error& error) {
    if (error.sys_errno() != ENOENT) throw;
    no_keeper(claim, claim.owner);
  }
}

// Nobody's (-1) where the kernel does not tell.
ucred peer_of(const Fd& keeper) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (::getsockopt(keeper.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer = {0, static_cast<uid_t>(-1), 0};
  return peer;
}

// Also a full queue of connections is waited at no longer than until then.
Fd connect_to(const port::ClaimAddress& claim, SteadyTime deadline) {
  const std::string& directory = claim.directory;
  const Fd folder = directory_of_keeper(claim);
  struct stat owner;
  if (::fstat(folder.get(), &owner) != 0)
    throw Error(ErrorCode::unavailable, "cannot read a claim's directory").about(directory).because(errno);
  const Fd node = socket_in(folder, owner.st_uid, claim);
  Fd keeper(above_standard(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  const int left = std::max(1, poll_timeout(deadline, std::chrono::steady_clock::now()));
  const timeval limit{left / 1000, left % 1000 * 1000};
  if (keeper) ::setsockopt(keeper.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);   // of connect(2), too
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, fmt::format("/proc/self/fd/{}", node.get()).c_str(), sizeof address.sun_path - 1);
  if (!keeper || ::connect(keeper.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EAGAIN) silent(claim, owner.st_uid);
    if (errno == ECONNREFUSED) killed(claim.id, owner.st_uid);
    throw Error(ErrorCode::unavailable, "cannot reach the claim's keeper").about(directory)
        .because(errno).hint(mend_of_want(errno));
  }
  if (peer_of(keeper).uid != owner.st_uid)
    throw Error(ErrorCode::unavailable, "another than the claim's owner answers here").about(directory + "/control");
  return keeper;
}

// The job of the queue whose task the process is of, by what it shows.
std::optional<std::uint64_t> job_of_task(pid_t pid) {
  const ShownEnvironment shown = environment_of(pid);
  return shown.word("THOLE_TASK=").empty() ? std::nullopt : parse_u64(shown.word("THOLE_JOB="));
}

constexpr Millis grace_of_a_stopped_one{5'000};
constexpr Millis to_end_an_answer{5'000};   // once it has begun: a keeper writes it at once, and it is shorter than any buffer

bool is_stopped(const Fd& keeper) {
  const pid_t pid = peer_of(keeper).pid;
  if (pid <= 0) return false;
  const auto process = process_state(pid);
  return process && is_stopped(*process);
}

}  // namespace

std::string ways_to_end(const std::string& claim, uid_t owner) {
  std::vector<std::string> ways;
  Allowance allowance(for_strangers);
  const Stop stop = [&] { return owner != ::geteuid() && allowance.over(); };
  for (const ProcessStat& process : started_in_claim(claim, owner, 0, stop)) {
    if (stop()) break;
    // What a shell within the claim has started besides.
    if (process.pid == ::getpid() || !has_locked_fifo(process.pid)) continue;
    const std::string shown = describe_process(process);   // "1234 python train.py"
    const std::string command = shown.substr(std::min(shown.find(' ') + 1, shown.size()));
    const auto job = claim.find('/') == std::string::npos ? job_of_task(process.pid) : std::nullopt;
    ways.push_back(fmt::format("{}  # {}", job ? fmt::format("thole cancel {}", *job) : fmt::format("kill {}", process.pid),
                               printable(command, 60)));
  }
  std::string text;
  for (const std::string& way : some_of(std::move(ways))) text += "\n  " + way;
  return text;
}

Answer ask_keeper(const port::ClaimAddress& claim, std::string_view question, Millis patience, const port::CheckLocks& check) {
  const std::string& directory = claim.directory;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  auto deadline = now() + patience;
  auto look = now() + grace_of_a_stopped_one;
  Fd keeper = connect_to(claim, std::min(deadline, std::chrono::steady_clock::now() + to_connect));
  Answer answer;
  const std::string asked = std::string(question) + "\n";   // shorter than any socket's buffer; no signal for a host program
  bool connected = ::send(keeper.get(), asked.data(), asked.size(), MSG_NOSIGNAL) ==
                   static_cast<ssize_t>(asked.size());
  const bool with_descriptors = question == "descriptors";
  const bool strangers = with_descriptors && peer_of(keeper).uid != ::geteuid();
  const Fd checked = strangers ? received_elsewhere(keeper.get(), patience, check) : Fd();
  const int answers = strangers ? checked.get() : keeper.get();
  while (connected && answer.text.find('\n') == std::string::npos) {
    const int left = poll_timeout(std::min(deadline, look), now());
    pollfd watched{answers, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&watched, 1, left) : 0;
    if (ready == 0) {
      if (now() >= deadline || is_stopped(keeper)) silent(claim, peer_of(keeper).uid);
      look = now() + Millis{1'000};
    }
    const bool had_begun = !answer.text.empty();
    if (ready > 0) connected = receive(answers, answer, with_descriptors);
    if (!had_begun && !answer.text.empty()) deadline = std::min(deadline, now() + to_end_an_answer);
    if (answer.text.size() > longest_reply)
      throw Error(ErrorCode::unavailable, "the claim's keeper answers nonsense").about(directory);
  }
  const std::string line = answer.text.substr(0, answer.text.find('\n'));
  if (line.starts_with("no ")) throw Error(ErrorCode::unavailable, printable(line.substr(3)));
  const uid_t owner = peer_of(keeper).uid;
  if (answer.text.empty() && ::access((directory + "/control").c_str(), F_OK) != 0 && says_absent(errno) &&
      owner != static_cast<uid_t>(-1))
    no_keeper(claim, owner);   // it has let go this moment
  if (!line.starts_with("ok "))
    throw Error(ErrorCode::unavailable, "the claim's keeper ended without an answer").about(directory);
  answer.text = line.substr(3);
  if (check && !strangers) check(answer.fds);
  return answer;
}

std::optional<port::Ending> parse_ending(std::string_view text) {
  const auto after_pid = text.find(' '), after_time = text.find(' ', after_pid == text.npos ? text.npos : after_pid + 1);
  if (after_time == text.npos) return std::nullopt;
  const auto pid = parse_u64(text.substr(0, after_pid));
  const auto left = parse_u64(text.substr(after_pid + 1, after_time - after_pid - 1));
  if (!pid || *pid == 0 || *pid > INT32_MAX) return std::nullopt;
  port::Ending ending{static_cast<pid_t>(*pid), std::string(text.substr(after_time + 1)), std::nullopt};
  if (left) ending.killed = std::chrono::steady_clock::now() + Millis(static_cast<std::int64_t>(std::min(*left, longest_left)));
  return ending;
}

port::ClaimAbout parse_about(std::string_view text) {
  port::ClaimAbout about;
  for (auto word : split(text, ' ')) {
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals), value = equals == word.npos ? std::string_view() : word.substr(equals + 1);
    if (name == "id") about.id = std::string(value);
    if (name == "pid") about.pid = static_cast<pid_t>(parse_u64(value).value_or(0));
    if (name == "kind") about.holder = value == "claim";
    if (name == "until")
      if (auto ms = parse_u64(value)) about.until = WallTime{Millis(static_cast<std::int64_t>(*ms))};
  }
  if (about.id.empty() || about.pid == 0)
    throw Error(ErrorCode::internal, "the claim's keeper answered nonsense").about(printable(text));
  return about;
}

}  // namespace thole::host
