#include "cli/show/low_screen.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "cli/show/render_jobs.hpp"

namespace thole::cli {

namespace {

enum class Stage { ended, running, waiting };

Stage stage_of(const app::JobLine& line) {
  if (line.job.counts.ended() == line.job.tasks) return Stage::ended;
  return line.job.counts[model::TaskState::running] > 0 ? Stage::running : Stage::waiting;
}

Stage stage_of(const model::Task& task) {
  if (model::ended(task.state)) return Stage::ended;
  return task.state == model::TaskState::running ? Stage::running : Stage::waiting;
}

struct LeftOut {
  std::uint64_t ended = 0, waiting = 0;

  std::uint64_t sum() const { return ended + waiting; }
  std::string text() const {
    std::vector<std::string> words;
    if (ended > 0) words.push_back(fmt::format("{} more that ended", ended));
    if (waiting > 0) words.push_back(fmt::format("{} more that {}", waiting, waiting == 1 ? "waits" : "wait"));
    return fmt::format("({}: the screen is too low)", join(words, ", "));
  }
};

// Takes up to so many out of `all`.
template <typename One>
void leave_out(std::vector<One>& all, std::size_t excess, LeftOut& left) {
  const std::uint64_t most = left.sum() + excess;
  std::erase_if(all, [&](const One& one) { return left.sum() < most && stage_of(one) == Stage::ended && ++left.ended > 0; });
  for (std::size_t at = all.size(); at-- > 0 && left.sum() < most;)
    if (stage_of(all[at]) == Stage::waiting) {
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
      ++left.waiting;
    }
}

template <typename One, typename Render>
std::string in_lines(std::vector<One>& all, const Screen& screen, std::size_t most, const Render& render) {
  LeftOut left;
  for (;;) {
    std::string text = render();
    if (left.sum() > 0) text += paragraph(screen, left.text());
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    if (most == 0 || lines <= most) return text;
    const std::uint64_t before = left.sum();
    leave_out(all, lines - most + (before == 0 ? 1 : 0), left);
    if (left.sum() == before) return text;
  }
}

}  // namespace

std::string jobs_in_lines(app::JobList list, const Screen& screen, std::size_t most) {
  return in_lines(list.lines, screen, most, [&] { return render_jobs(list, screen); });
}

std::string tasks_in_lines(std::vector<model::Task> tasks, WallTime now, const Screen& screen, std::size_t most) {
  return in_lines(tasks, screen, most, [&] { return render_tasks(tasks, now, screen); });
}

}  // namespace thole::cli
