#include "app/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

constexpr std::uint64_t longest_s = 100ull * 366 * 24 * 3600;   // no time in a trace counts for more

// Where the columns are that count.
struct Columns {
  std::size_t arrival, duration, gpus;
  std::optional<std::size_t> vc;
};

Columns columns_of_head(std::string_view head, const std::string& name) {
  const std::vector<std::string_view> words = split(head, ',');
  const auto find = [&](std::string_view wanted) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < words.size(); ++i)
      if (trim(words[i]) == wanted) return i;
    return std::nullopt;
  };
  const auto must = [&](std::string_view wanted) {
    const auto found = find(wanted);
    if (!found)
      throw Error(ErrorCode::usage, fmt::format("no column {}", wanted))
          .about(name + ":1")
          .hint("the first row names the columns: arrival_s,duration_s,num_gpus,vc");
    return *found;
  };
  return {must("arrival_s"), must("duration_s"), must("num_gpus"), find("vc")};
}

// Does this one of the jobs declare a time? Spread as if by chance, and the same in each run.
bool declares(std::uint64_t job, double percent) {
  std::uint64_t x = job + 0x9e3779b97f4a7c15u;     // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) % 10'000) < percent * 100;
}

std::optional<Seconds> declared_of(Seconds duration, std::optional<double> factor) {
  if (!factor || *factor == 0) return std::nullopt;
  return Seconds{static_cast<long>(std::ceil(static_cast<double>(duration.count()) * *factor))};
}

class Rows {
 public:
  Rows(std::string_view head, const std::string& name, const TraceWish& wish)
      : name_(name), wish_(wish), columns_(columns_of_head(head, name)) {
    if (!wish.vc.empty() && !columns_.vc)
      throw Error(ErrorCode::usage, "no column vc to select by")
          .about(name + ":1")
          .hint("leave --vc out to play all of its jobs");
  }

  void add(std::string_view line, std::size_t number) {
    const std::vector<std::string_view> cells = split(line, ',');
    const auto cell = [&](std::size_t column) { return column < cells.size() ? trim(cells[column]) : std::string_view(); };
    if (columns_.vc) {
      const std::string_view vc = cell(*columns_.vc);
      if (!wish_.vc.empty() && vc != wish_.vc) {
        others_.emplace(vc);
        return;
      }
    }
    const auto whole = [&](std::size_t column, std::uint64_t most) {
      const auto value = parse_u64(cell(column));
      if (!value || *value > most)
        throw Error(ErrorCode::usage, fmt::format("\"{}\" is not a whole number up to {}", printable(cell(column), 40), most))
            .about(fmt::format("{}:{}", name_, number));
      return *value;
    };
    plan::PastJob job;
    job.arrival = Seconds{static_cast<long>(whole(columns_.arrival, longest_s))};
    job.duration = Seconds{static_cast<long>(whole(columns_.duration, longest_s))};
    job.gpus = static_cast<unsigned>(whole(columns_.gpus, 1u << 20));
    if (declares(number, wish_.declaring_percent)) job.declared = declared_of(job.duration, wish_.declared);
    if (job.gpus > wish_.max_width) ++recorded_.too_wide;
    else if (job.gpus > 0) recorded_.jobs.push_back(job);
  }

  Recorded finish() {
    if (recorded_.jobs.empty() && recorded_.too_wide == 0 && !wish_.vc.empty()) {
      const std::vector<std::string> known(others_.begin(), others_.end());
      const auto near = nearest(wish_.vc, known);
      throw Error(ErrorCode::usage, fmt::format("no job of vc \"{}\"", printable(wish_.vc, 40))).about(name_)
          .hint(near ? "did you mean " + printable(*near, 40) + "?" : fmt::format("it has {} others, such as {}", known.size(),
                known.empty() ? "none" : printable(known.front(), 40)));
    }
    return std::move(recorded_);
  }

 private:
  const std::string& name_;
  const TraceWish& wish_;
  Columns columns_;
  std::set<std::string, std::less<>> others_;      // clusters that were not asked for
  Recorded recorded_;
};

}  // namespace

Recorded read_trace(std::string_view text, const std::string& name, const TraceWish& wish) {
  const std::vector<std::string_view> lines = split_lines(text);
  if (lines.empty()) throw Error(ErrorCode::usage, "the file is empty").about(name);
  Rows rows(lines.front(), name, wish);
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (!trim(lines[i]).empty()) rows.add(lines[i], i + 1);
  return rows.finish();
}

Recorded read_history(port::JobReader& jobs, const TraceWish& wish) {
  using model::TaskState;
  constexpr std::uint64_t at_once = 10'000;
  const std::set<TaskState> ran{TaskState::done, TaskState::failed};
  Recorded recorded;
  std::vector<std::pair<WallTime, plan::PastJob>> came;
  const auto add = [&](const model::Job& job, const model::Task& task, std::optional<Seconds> limit) {
    if (!task.started || !task.ended || *task.ended < *task.started) return;
    plan::PastJob past;
    past.duration = std::chrono::ceil<Seconds>(*task.ended - *task.started);
    past.gpus = job.gpus;
    past.declared = wish.declared ? declared_of(past.duration, wish.declared) : limit;
    if (past.declared) past.declared = std::max(*past.declared, past.duration);   // INT, TERM and KILL take their time
    if (!declares(came.size(), wish.declaring_percent)) past.declared.reset();
    if (past.gpus > wish.max_width) ++recorded.too_wide;
    else came.emplace_back(std::max(job.submitted, job.terms.begin.value_or(job.submitted)), past);
  };
  for (const model::Job& job : jobs.jobs({})) {
    if (job.gpus == 0) continue;
    const std::optional<Seconds> limit = jobs.spec(job.id).request.time;
    for (model::TaskIndex from = 0;;) {
      const std::vector<model::Task> tasks = jobs.tasks(job.id, from, at_once, ran);
      for (const model::Task& task : tasks) add(job, task, limit);
      if (tasks.size() < at_once) break;
      from = tasks.back().index + 1;
    }
  }
  if (came.empty()) return recorded;
  const auto earlier = [](const auto& a, const auto& b) { return a.first < b.first; };
  const WallTime first = std::min_element(came.begin(), came.end(), earlier)->first;
  for (auto& [when, past] : came) {
    past.arrival = std::chrono::floor<Seconds>(when - first);
    recorded.jobs.push_back(past);
  }
  return recorded;
}

std::vector<plan::Played> compare(const Recorded& recorded, unsigned gpus, plan::QueuePolicy policy) {
  using plan::QueuePolicy;
  std::vector<plan::Played> played;
  for (const QueuePolicy each : {policy, QueuePolicy::fifo, QueuePolicy::first_fit})
    if (std::none_of(played.begin(), played.end(), [&](const plan::Played& other) { return other.policy == each; }))
      played.push_back(plan::play(recorded.jobs, gpus, each));
  return played;
}

}  // namespace thole::app
