#include "host/probe/asking.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/made.hpp"
#include "base/text.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr Millis asking_poll{5};                           // flock has no deadline; this is the price of one

// "asking|abandoned PROBE ISO-TIME ASKER", as this user's own processes have written it.
struct ProbeNote {
  bool abandoned = false;
  std::string probe;                                       // its pid; "0" before there is one
  std::optional<WallTime> since;
  pid_t asker = 0;
};

ProbeNote read_note(const std::string& path) {
  const std::string text = read_file(path, 256).value_or("");
  const auto words = split(trim(text), ' ');
  ProbeNote note;
  note.abandoned = text.starts_with("abandoned ");
  if (words.size() < 3) return note;
  note.probe = words[1];
  note.since = parse_iso(words[2]);
  if (words.size() > 3) note.asker = static_cast<pid_t>(parse_u64(words[3]).value_or(0));
  return note;
}

// Else its note has outlived it, and who has the lock now is about to write his own.
bool lives(const std::string& probe) {
  const auto pid = parse_u64(probe);
  return pid && read_process(static_cast<pid_t>(*pid));
}

bool asker_stands_still(pid_t pid) {
  const auto process = pid > 0 ? read_process(pid) : std::nullopt;
  return process && is_stopped_state(process->state);
}

}  // namespace

std::optional<AskingLock::Occupied> AskingLock::take(SteadyTime deadline) {
  for (;;) {
    if (!lock_) lock_ = create_at(AT_FDCWD, path_.c_str(), O_RDWR | O_NOFOLLOW, 0600);
    if (!lock_) return std::nullopt;
    const bool taken = ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0;
    if (!is_in_place()) {
      lock_.reset();
      continue;
    }
    if (taken) return std::nullopt;
    const ProbeNote note = read_note(path_);
    const auto occupied = [&](std::string why) {
      if (!note.probe.empty()) why += " (process " + note.probe + ")";
      return Occupied{std::move(why), note.since};
    };
    if (note.abandoned && lives(note.probe)) return occupied("an earlier probe is stuck in the driver and cannot be killed");
    if (asker_stands_still(note.asker) && is_in_place() && ::unlink(path_.c_str()) == 0) continue;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now >= deadline) return occupied("another probe has been waiting for the driver");
    ::poll(nullptr, 0, static_cast<int>(std::min<long>(asking_poll.count(), std::max(poll_timeout(deadline, now), 1))));
  }
}

void AskingLock::give_back() const {
  if (lock_) ::flock(lock_.get(), LOCK_UN);
}

std::optional<WallTime> AskingLock::asked_since() const { return lock_ ? read_note(path_).since : std::nullopt; }

// It keeps the lock by its own copy. Ours is closed, so that we do not unlock it, and is opened anew next time.
void AskingLock::leave_to(pid_t abandoned) {
  if (!lock_) return;
  note("abandoned", abandoned);
  lock_.reset();
}

void AskingLock::note(const char* what, pid_t probe) const {
  if (!lock_) return;
  const WallTime now = std::chrono::floor<Millis>(std::chrono::system_clock::now());
  const std::string text = fmt::format("{} {} {} {}\n", what, probe, format_iso(now), ::getpid());
  if (::ftruncate(lock_.get(), 0) == 0) (void)!::pwrite(lock_.get(), text.data(), text.size(), 0);
}

// Not where somebody has gone past one who was stopped, or has cleaned up.
bool AskingLock::is_in_place() const {
  struct stat ours, there;
  return ::fstat(lock_.get(), &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

}  // namespace thole::host
