#include "host/queue/runner_place.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/soft_limits.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

std::string of_process(pid_t pid, const char* what) { return fmt::format("/proc/{}/{}", pid, what); }

// Nothing where one of them cannot be looked at.
std::optional<bool> lead_to_one(const std::string& ours, const std::string& theirs) {
  struct stat a {}, b {};
  if (::stat(ours.c_str(), &a) != 0) return std::nullopt;
  if (::stat(theirs.c_str(), &b) != 0) return says_absent(errno) ? std::optional(false) : std::nullopt;
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

bool sees_other_files(pid_t pid) {
  return lead_to_one("/proc/self/ns/mnt", of_process(pid, "ns/mnt")) == false ||
         lead_to_one("/proc/self/root", of_process(pid, "root")) == false;
}

// The words behind a line's name in /proc/PID/status.
std::vector<std::string> words_of(const std::string& status, std::string_view name) {
  std::vector<std::string> words;
  for (const std::string_view line : split_lines(status))
    if (line.starts_with(name))
      for (const std::string_view word : split(trim(line.substr(name.size())), ' ')) words.emplace_back(word);
  std::ranges::sort(words);
  return words;
}

std::string text_of_process(pid_t pid, const char* what) { return read_file(of_process(pid, what), 1 << 16).value_or(""); }

int oom_score_of(pid_t pid) { return std::atoi(text_of_process(pid, "oom_score_adj").c_str()); }

}  // namespace

std::vector<std::string> had_from_runner(pid_t runner) {
  std::vector<std::string> had;
  if (sees_other_files(runner)) had.push_back("another view of the files (a mount namespace or root of its own)");
  for (const SoftLimit& limit : soft_limits()) {
    rlimit theirs{RLIM_INFINITY, RLIM_INFINITY};
    ::prlimit(runner, static_cast<decltype(RLIMIT_CPU)>(limit.resource), nullptr, &theirs);
    if (theirs.rlim_max < limit.value) had.push_back(fmt::format("at most {} of {} (ulimit)", theirs.rlim_max, limit.name));
  }
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(runner));
  if (errno == 0 && nice > ::getpriority(PRIO_PROCESS, 0)) had.push_back(fmt::format("a nice value of {}", nice));
  const std::string ours = text_of_process(::getpid(), "status"), theirs = text_of_process(runner, "status");
  if (theirs.empty()) return had;
  const auto differs = [&](std::string_view name) { return words_of(ours, name) != words_of(theirs, name); };
  if (differs("NoNewPrivs:") && words_of(ours, "NoNewPrivs:") == std::vector<std::string>{"0"})
    had.emplace_back("no new privileges (sudo does nothing)");
  if (differs("Groups:")) had.push_back("the groups " + join(words_of(theirs, "Groups:"), " "));
  const int adjusted = oom_score_of(runner);
  if (adjusted > oom_score_of(::getpid())) had.push_back(fmt::format("an oom_score_adj of {}", adjusted));
  return had;
}

void check_same_files(pid_t runner, const std::vector<std::string>& paths) {
  if (!sees_other_files(runner)) return;
  for (const std::string& path : paths) {
    std::error_code missing;
    const std::filesystem::path whole = std::filesystem::canonical(path, missing);
    if (missing || lead_to_one(whole, of_process(runner, "root") + whole.string()) != false) continue;
    throw Error(ErrorCode::unavailable, "the queue's runner sees other files than you: this is not the same one there")
        .about(path)
        .hint(fmt::format("submit from where it was started (process {}), or once its queue has been empty for 5 s:\n"
                          "  then it ends, and the next submit starts one here", runner));
  }
}

}  // namespace thole::host
