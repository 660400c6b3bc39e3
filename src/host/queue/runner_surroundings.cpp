#include "host/queue/runner_surroundings.hpp"

#include <sys/prctl.h>
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
#include "host/process/file_within.hpp"

namespace thole::host {
namespace {

std::string of_process(pid_t pid, const char* what) { return fmt::format("/proc/{}/{}", pid, what); }

// Nothing where one of them cannot be looked at.
std::optional<bool> lead_to_one(const std::string& ours, const std::string& theirs) {
  struct stat a {}, b {};
  if (::stat(ours.c_str(), &a) != 0) return std::nullopt;
  if (::stat(theirs.c_str(), &b) != 0) return says_absent(errno) ? std::optional(false) : std::nullopt;
  return is_one_file(a, b);
}

// Nothing: that cannot be told, as from a user namespace, or where /proc hides the process.
std::optional<bool> sees_other_files(pid_t pid) {
  struct stat shown {};
  if (::stat(of_process(pid, "root").c_str(), &shown) != 0) return std::nullopt;
  const auto view = lead_to_one("/proc/self/ns/mnt", of_process(pid, "ns/mnt"));
  const auto root = lead_to_one("/proc/self/root", of_process(pid, "root"));
  if (view == false || root == false) return true;
  return view && root ? std::optional(false) : std::nullopt;
}

// What stands behind a name at the beginning of a line of /proc/PID/status.
std::string_view value_of(std::string_view status, std::string_view name) {
  const std::size_t at = status.find(name);      // with the end of the line before it
  if (at == std::string_view::npos) return {};
  const std::string_view rest = status.substr(at + name.size());
  return trim(rest.substr(0, rest.find('\n')));
}

std::vector<gid_t> groups_in(std::string_view words) {
  std::vector<gid_t> groups;
  for (const std::string_view word : split(words, ' '))
    if (const auto group = parse_u64(word)) groups.push_back(static_cast<gid_t>(*group));
  std::ranges::sort(groups);
  return groups;
}

std::vector<gid_t> own_groups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  groups.resize(static_cast<std::size_t>(std::max(::getgroups(static_cast<int>(groups.size()), groups.data()), 0)));
  std::ranges::sort(groups);
  return groups;
}

std::string text_of_process(pid_t pid, const char* what) { return read_file(of_process(pid, what), 1 << 16).value_or(""); }

int oom_score_of(pid_t pid) { return std::atoi(text_of_process(pid, "oom_score_adj").c_str()); }

}  // namespace

std::vector<std::string> had_from_runner(pid_t runner) {
  std::vector<std::string> had;
  const std::optional<bool> other_files = sees_other_files(runner);
  if (!other_files) had.emplace_back("the files that it sees, which cannot be compared from here with yours");
  else if (*other_files) had.emplace_back("another view of the files (a mount namespace or root of its own)");
  for (const SoftLimit& limit : soft_limits()) {
    rlimit theirs{RLIM_INFINITY, RLIM_INFINITY};
    ::prlimit(runner, static_cast<decltype(RLIMIT_CPU)>(limit.resource), nullptr, &theirs);
    if (theirs.rlim_max < limit.value) had.push_back(in_words(limit, theirs.rlim_max));
  }
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(runner));
  if (errno == 0 && nice > ::getpriority(PRIO_PROCESS, 0)) had.push_back(fmt::format("a nice value of {}", nice));
  const std::string status = text_of_process(runner, "status");
  if (status.empty()) return had;
  if (value_of(status, "\nNoNewPrivs:") == "1" && ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
    had.emplace_back("no new privileges (sudo does nothing)");
  const std::string_view groups = value_of(status, "\nGroups:");
  if (!std::ranges::includes(groups_in(groups), own_groups()))
    had.push_back(groups.empty() ? "no supplementary groups" : fmt::format("the groups {}", groups));
  const int adjusted = oom_score_of(runner);
  if (adjusted > oom_score_of(::getpid())) had.push_back(fmt::format("an oom_score_adj of {}", adjusted));
  return had;
}

void check_same_files(pid_t runner, const std::vector<std::string>& paths) {
  if (sees_other_files(runner) != true) return;
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

// What cannot be told is not the same.
bool finds_same_files(pid_t runner, const std::vector<std::string>& paths) {
  if (paths.empty() || (runner > 0 && sees_other_files(runner) == false)) return true;
  return runner > 0 && std::ranges::all_of(paths, [&](const std::string& path) {
    const FileFound here = file_here(path);
    return here.told && here == file_within(runner, path);
  });
}

}  // namespace thole::host
