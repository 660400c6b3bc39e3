#include "host/queue/unseen_note.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/fd.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/process/tree.hpp"
#include "host/queue/task_processes.hpp"

namespace thole::host {
namespace {

constexpr std::size_t longest_note = 1u << 20;
constexpr std::string_view last_line = ".";      // a note without it is not whole

std::uint64_t own_user_namespace() { return in_first_user_namespace() ? 0 : user_namespace(); }

// The numbers at the beginning of a line, and what follows them.
template <std::size_t N>
std::optional<std::pair<std::array<std::uint64_t, N>, std::string_view>> numbers_of(std::string_view line) {
  std::array<std::uint64_t, N> numbers{};
  for (std::uint64_t& number : numbers) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const auto value = parse_u64(line.substr(0, end));
    if (!value) return std::nullopt;
    number = *value;
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return std::pair(numbers, line);
}

}  // namespace

std::optional<UnseenNote> read_unseen(const std::string& path) {
  const Fd file = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  const std::string text = file ? read_all(file.get(), longest_note).value_or("") : "";
  const std::vector<std::string_view> lines = split_lines(text);
  if (lines.size() < 2 || lines.back() != last_line) return std::nullopt;
  const auto head = numbers_of<2>(lines.front());
  if (!head) return std::nullopt;
  UnseenNote note{head->first[0], head->first[1], {}};
  for (std::size_t i = 1; i + 1 < lines.size(); ++i)
    if (const auto line = numbers_of<6>(lines[i])) {
      const auto& [job, task, runs, pids, by_user, locked] = line->first;
      note.runs.push_back({job, task, static_cast<unsigned>(runs), pids, by_user != 0, locked != 0, std::string(line->second)});
    }
  return note;
}

void write_unseen(const std::string& path, const std::vector<port::UnseenRun>& runs) {
  // By the /proc of another pid namespace it sees nothing of its own either.
  std::string text = fmt::format("{} {}\n", proc_numbers_are_ours() ? pid_namespace() : 0, own_user_namespace());
  for (const port::UnseenRun& run : runs)
    text += fmt::format("{} {} {} {} {:d} {:d} {}\n", run.job, run.task, run.runs, run.pid_namespace, run.by_user_namespace,
                        run.locked, printable(run.why, 2000));
  text += fmt::format("{}\n", last_line);
  const Fd file = open_at(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file) static_cast<void>(write_all(file.get(), text));
}

bool is_seen_here(const UnseenNote& note, const port::UnseenRun& run) {
  const std::uint64_t ours = own_user_namespace();
  if (note.user_namespace == ours && note.pid_namespace == pid_namespace()) return false;
  if (note.user_namespace == 0 && ours != 0) return false;   // the kernel tells us no more than that one
  try {
    refuse_elsewhere({.mark = "", .pid_namespace = run.pid_namespace});
  } catch (const port::Unseen&) {
    return false;
  }
  return !run.by_user_namespace || ours != note.user_namespace;
}

}  // namespace thole::host
