#include "host/process/shown_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "base/want.hpp"
#include "host/process/memory_file.hpp"
#include "host/process/waits_for_exec.hpp"

namespace thole::host {
namespace {

// A millisecond apart. An exec takes a few of these, but where the program comes from a slow file system.
constexpr unsigned looks_at_exec = 1000, looks_at_crowd = 4;

ShownEnvironment words_in(MemoryFile& environ) {
  constexpr std::size_t most = 8u << 20;         // the kernel's own limit of them is 6 MiB
  MemoryText words = environ.read(most);
  return {std::move(words.text), words.why};
}

// What /proc/PID/stat says of its memory, without waiting for it (fields 26, 50 and 51 of proc(5)).
constexpr std::uint64_t hidden_code = 1;
struct MemoryLayout {
  std::uint64_t code = 0, environment = 0, end_of_environment = 0;
};

std::optional<MemoryLayout> layout_of(const std::string& process) {
  const auto text = read_file(process + "/stat", 4096);
  const auto end_of_name = text ? text->rfind(')') : std::string::npos;
  if (end_of_name == std::string::npos) return std::nullopt;
  const auto fields = split(trim(std::string_view(*text).substr(end_of_name + 1)), ' ');   // the first is field 3
  const auto field = [&](std::size_t number) -> std::uint64_t {
    return fields.size() > number - 3 ? parse_u64(fields[number - 3]).value_or(0) : 0;
  };
  return MemoryLayout{field(26), field(50), field(51)};
}

// For a moment of its execve(2) a process has a new memory and no words in it yet: it would pass for one without any. The
// kernel notes where its code is after it has put them there (load_elf_binary). One of the kernel's own, or one that has
// ended, has no program.
ShownEnvironment environment_of_first(pid_t pid) {
  thread_local WaitsForExec waits;
  const std::string path = "/proc/" + std::to_string(pid);
  const SteadyTime begun = std::chrono::steady_clock::now();
  ShownEnvironment environment;
  unsigned at_exec = 0, most_at_exec = looks_at_exec;
  while (at_exec < most_at_exec) {
    MemoryFile file(path + "/environ", MemoryFile::For::decide);
    environment = words_in(file);
    if (environment.why != 0 || !environment.words.empty()) break;
    errno = 0;
    const std::optional<MemoryLayout> layout = layout_of(path);
    if (!layout && is_want(errno)) environment.why = errno;
    if (!layout || (layout->code > hidden_code && layout->environment == layout->end_of_environment)) break;
    if (layout->code <= hidden_code && executable_of(pid).empty()) break;
    if (at_exec++ == 0 && !waits.may_wait(std::chrono::steady_clock::now())) most_at_exec = looks_at_crowd;
    if (layout->code <= hidden_code) ::usleep(1000);
  }
  if (at_exec >= most_at_exec) environment.why = ETIMEDOUT;
  if (at_exec > 0) waits.has_waited(std::chrono::steady_clock::now() - begun);
  return environment;
}

}  // namespace

bool carries_mark(pid_t pid, const std::string& mark) {
  return environment_of(pid).look_for("THOLE_TASK=" + mark) == Word::there;
}

std::string ShownEnvironment::word(std::string_view name) const {
  for (std::string_view word : split(words, '\0'))
    if (word.starts_with(name)) return std::string(word.substr(name.size()));
  return "";
}

// But of one that has ended.
bool ShownEnvironment::is_untold() const { return why != 0 && why != ENOENT && why != ESRCH; }

Word ShownEnvironment::look_for(std::string_view beginning) const {
  if (is_untold()) return Word::untold;
  for (auto at = words.find(beginning); at != std::string::npos; at = words.find(beginning, at + 1))
    if (at == 0 || words[at - 1] == '\0') return Word::there;
  return Word::missing;
}

// Of a process whose first thread has ended, as it may while others run, /proc/PID tells as little as of one that has ended,
// and nothing to who is not root: its living threads tell.
ShownEnvironment environment_of(pid_t pid) {
  ShownEnvironment environment = environment_of_first(pid);
  const bool is_closed = environment.why == EACCES || environment.why == EPERM;
  if ((environment.why != 0 && !is_closed) || !environment.words.empty()) return environment;
  int why = 0;
  const std::string thread = directory_behind_ended_first(pid, &why);
  if (thread.empty()) return is_closed ? environment : ShownEnvironment{"", why};
  MemoryFile file(thread + "/environ", MemoryFile::For::decide);
  return words_in(file);
}

std::vector<ProcessStat> started_in_claim(const std::string& id, uid_t user, pid_t keeper, const Stop& stop) {
  const std::string part = "/" + id + "/";
  std::vector<ProcessStat> found, untold;
  std::set<pid_t> within;
  if (keeper > 0) within.insert(keeper);
  for (const pid_t pid : all_pids()) {
    if (user_of(pid) != user) continue;
    if (stop && stop()) break;
    const ShownEnvironment shown = environment_of(pid);
    const bool is_inside = ("/" + shown.word("THOLE_CLAIM=") + "/").find(part) != std::string::npos;   // "outer/inner": in both
    if (!is_inside && !shown.is_untold()) continue;
    auto process = read_process(pid);
    if (!process || is_ended_state(process->state)) continue;
    if (is_inside) within.insert(pid);
    (is_inside ? found : untold).push_back(std::move(*process));
  }
  for (bool more = true; more;) {
    const auto rest = std::ranges::stable_partition(untold, [&](const ProcessStat& process) {
      return !within.contains(process.parent) && !within.contains(process.group) && !within.contains(::getsid(process.pid));
    });
    more = !rest.empty();
    for (ProcessStat& process : rest) {
      within.insert(process.pid);
      found.push_back(std::move(process));
    }
    untold.erase(rest.begin(), rest.end());
  }
  return found;
}

}  // namespace thole::host
