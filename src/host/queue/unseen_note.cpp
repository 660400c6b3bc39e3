// The lines: where the runner is ("from"), where what it looks after was started ("seen"), and what it does not see ("unseen").
// Builds before these words refuse the first one, and take the note for one that is being written.
#include "host/queue/unseen_note.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/tree.hpp"
#include "host/queue/task_processes.hpp"
#include "model/boot.hpp"

namespace thole::host {
namespace {

constexpr std::size_t longest_note = 16u << 20;
constexpr std::string_view last_line = ".";      // a note without it is not whole
constexpr std::string_view no_boot = "-";

std::uint64_t own_user_namespace() { return in_first_user_namespace() ? 0 : user_namespace(); }

std::string_view next_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

port::UnseenBy reason_of(std::uint64_t number) {
  using enum port::UnseenBy;
  for (const port::UnseenBy reason : {pid_namespace, original, hidden})
    if (number == static_cast<std::uint64_t>(reason)) return reason;
  return user_namespace;
}

template <std::size_t N>
std::optional<std::array<std::uint64_t, N>> next_numbers(std::string_view& line) {
  std::array<std::uint64_t, N> numbers{};
  for (std::uint64_t& number : numbers) {
    const auto value = parse_u64(next_word(line));
    if (!value) return std::nullopt;
    number = *value;
  }
  return numbers;
}

// A container's may be any bytes.
std::string word_of_boot(std::string_view boot) {
  std::string word;
  for (const char c : boot) word += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return word.empty() ? std::string(no_boot) : word;
}

std::string boot_of_word(std::string_view word) {
  std::string boot;
  for (std::size_t i = 0; word != no_boot && i + 1 < word.size(); i += 2)
    boot += static_cast<char>(parse_u64(word.substr(i, 2), 16).value_or(0));
  return boot;
}

std::string words_of_ranges(const std::vector<model::TaskRange>& ranges) {
  std::string words;
  for (const auto& [first, last] : ranges) words += fmt::format("{}{}-{}", words.empty() ? "" : ",", first, last);
  return words;
}

bool read_line_of(UnseenNote& note, std::string_view line) {
  const std::string_view kind = next_word(line);
  if (kind == "seen") {
    const auto numbers = next_numbers<1>(line);
    if (numbers) note.seen.insert({(*numbers)[0], boot_of_word(next_word(line))});
    return numbers.has_value();
  }
  const auto numbers = next_numbers<5>(line);
  if (kind != "unseen" || !numbers) return false;
  const auto& [job, runs, pids, by, locked] = *numbers;
  UnseenTasks tasks{{job, 0, static_cast<unsigned>(runs), pids, reason_of(by), locked != 0, "", ""}, {}};
  tasks.one.boot = boot_of_word(next_word(line));
  for (const std::string_view range : split(next_word(line), ',')) {
    const std::size_t dash = std::min(range.find('-'), range.size());
    const auto first = parse_u64(range.substr(0, dash));
    const auto last = parse_u64(range.substr(std::min(dash + 1, range.size())));
    if (!first || !last) return false;
    tasks.ranges.emplace_back(*first, *last);
  }
  tasks.one.task = tasks.ranges.front().first;
  tasks.one.why = std::string(line);
  note.tasks.push_back(std::move(tasks));
  return true;
}

// Of many tasks the same is said once.
std::vector<UnseenTasks> gathered(const std::vector<port::UnseenRun>& runs) {
  std::vector<UnseenTasks> all;
  using Said = std::tuple<model::JobId, unsigned, std::uint64_t, port::UnseenBy, bool, std::string_view, std::string_view>;
  std::map<Said, std::vector<model::TaskIndex>> tasks;
  for (const port::UnseenRun& run : runs)
    tasks[{run.job, run.runs, run.pid_namespace, run.by, run.locked, run.boot, run.why}].push_back(run.task);
  for (auto& [said, indices] : tasks) {
    const auto& [job, number, pids, by, locked, boot, why] = said;
    std::vector<model::TaskRange> ranges = model::ranges_of(std::move(indices));
    port::UnseenRun first{job, ranges.front().first, number, pids, by, locked, std::string(boot), std::string(why)};
    all.push_back({std::move(first), std::move(ranges)});
  }
  return all;
}

std::string text_of(const port::RunnerSight& sight) {
  // By the /proc of another pid namespace it sees nothing of its own either.
  std::string text = fmt::format("from {} {}\n", proc_numbers_are_ours() ? pid_namespace() : 0, own_user_namespace());
  for (const port::SeenFrom& from : sight.seen)
    text += fmt::format("seen {} {}\n", from.pid_namespace, word_of_boot(from.boot));
  for (const UnseenTasks& tasks : gathered(sight.unseen)) {
    const port::UnseenRun& run = tasks.one;
    text += fmt::format("unseen {} {} {} {} {:d} {} {} {}\n", run.job, run.runs, run.pid_namespace,
                        static_cast<int>(run.by), run.locked, word_of_boot(run.boot), words_of_ranges(tasks.ranges),
                        printable(run.why, 2000));
  }
  return text + fmt::format("{}\n", last_line);
}

bool is_reached_here(std::uint64_t pid_namespace) {
  try {
    refuse_elsewhere({.mark = "", .pid_namespace = pid_namespace});
    return true;
  } catch (const port::Unseen&) {
    return false;
  }
}

model::Boot boot_here(const std::string& said) { return model::Boots(known_boot()).of(model::boot_from_text(said)); }

// What cannot be told to be of this boot is seen by whom it can be told: where it was another one, by anybody.
bool is_seen_here(const UnseenNote& note, const port::UnseenRun& run) {
  if (run.by == port::UnseenBy::original || run.by == port::UnseenBy::hidden) return false;
  const model::Boot boot = run.boot.empty() ? model::Boot::this_one : boot_here(run.boot);
  if (boot == model::Boot::another) return true;
  if (boot == model::Boot::untold || !is_reached_here(run.pid_namespace)) return false;
  return run.by != port::UnseenBy::user_namespace || own_user_namespace() != note.user_namespace;
}

// In a container what nobody knows to have been started there is not seen (app/queue/orphans.hpp).
bool is_seen_here(const port::SeenFrom& from) {
  const bool elsewhere = from.pid_namespace == 0 && !from.boot.empty() && !known_boot().kernels_own;
  return is_reached_here(from.pid_namespace) && (!elsewhere || boot_here(from.boot) != model::Boot::untold);
}

}  // namespace

std::optional<port::UnseenRun> UnseenNote::find(const model::Task& task) const {
  for (const UnseenTasks& some : tasks) {
    if (some.one.job != task.job || some.one.runs != task.runs) continue;
    const auto is_in = [&](const auto& range) { return range.first <= task.index && task.index <= range.second; };
    if (std::ranges::none_of(some.ranges, is_in)) continue;
    port::UnseenRun run = some.one;
    run.task = task.index;
    return run;
  }
  return std::nullopt;
}

std::optional<UnseenNote> read_unseen(const std::string& path) {
  const Fd file = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  const std::string text = file ? read_all(file.get(), longest_note).value_or("") : "";
  const std::vector<std::string_view> lines = split_lines(text);
  if (lines.size() < 2 || lines.back() != last_line) return std::nullopt;
  std::string_view first = lines.front();
  if (next_word(first) != "from") return std::nullopt;
  const auto head = next_numbers<2>(first);
  if (!head) return std::nullopt;
  UnseenNote note{(*head)[0], (*head)[1], {}, {}};
  for (std::size_t i = 1; i + 1 < lines.size(); ++i)
    if (!read_line_of(note, lines[i])) return std::nullopt;
  return note;
}

bool UnseenWriter::stands() const {
  struct stat now {};
  return !text_.empty() && ::lstat(path_.c_str(), &now) == 0 && now.st_ino == written_.st_ino &&
         now.st_dev == written_.st_dev && now.st_size == written_.st_size && now.st_mtim.tv_sec == written_.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == written_.st_mtim.tv_nsec;
}

void UnseenWriter::write(const port::RunnerSight& sight) {
  std::string text = text_of(sight);
  if (text == text_ && stands()) return;
  text_.clear();
  const Fd file = create_at(AT_FDCWD, path_.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (!file || !write_all(file.get(), text) || ::fstat(file.get(), &written_) != 0) {
    const int why = errno;
    throw Error(ErrorCode::unavailable, "cannot tell what is not seen from here").about(path_).because(why).hint(
        is_want(why) ? mend_of_want(why) : why == ENOSPC || why == EDQUOT ? "make room on that disk" : "thole doctor");
  }
  text_ = std::move(text);
}

bool sees_more_here(const UnseenNote& note) {
  const std::uint64_t ours = own_user_namespace();
  if (note.user_namespace == ours && note.pid_namespace == pid_namespace()) return false;
  if (note.user_namespace == 0 && ours != 0) return false;   // the kernel tells us no more than that one
  if (!note.seen.empty() && ours != 0 && ours != note.user_namespace) return false;
  return std::ranges::all_of(note.seen, [](const port::SeenFrom& from) { return is_seen_here(from); }) &&
         std::ranges::any_of(note.tasks, [&](const UnseenTasks& tasks) { return is_seen_here(note, tasks.one); });
}

}  // namespace thole::host
