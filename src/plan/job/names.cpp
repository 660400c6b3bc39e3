#include "plan/job/names.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::plan {

namespace {

bool begins_with_digit(std::string_view text) { return !text.empty() && text.front() >= '0' && text.front() <= '9'; }

[[noreturn]] void refuse_piece(std::string_view piece, std::string_view why) {
  throw Error(ErrorCode::usage, fmt::format("\"{}\" names no job: {}", printable(piece, 60), why))
      .hint("7, 3,5-9, 12.3 or 12.0-99 (tasks of job 12), @ (the newest), or a job's name");
}

Numbers parse_numbers(std::string_view text, std::string_view piece) {
  const std::size_t dash = text.find('-');
  const auto first = parse_u64(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_u64(text.substr(dash + 1));
  if (!first || !last) refuse_piece(piece, "expected a number or a range");
  if (*first > *last) refuse_piece(piece, fmt::format("{} comes after {}", *first, *last));
  return {*first, *last};
}

// "12.0-99": what stands before the dot, and the tasks after it.
TaskName parse_name(std::string_view piece) {
  TaskName name;
  name.word = piece;
  if (piece.empty()) refuse_piece(piece, "it is empty");
  if (begins_with_digit(piece) && piece.find_first_not_of("0123456789.") == piece.npos && piece.find("..") != piece.npos)
    refuse_piece(piece, "a range has a dash");
  std::string_view job = piece;
  const std::size_t dot = piece.rfind('.');
  const bool has_tasks = dot != std::string_view::npos && begins_with_digit(piece.substr(dot + 1)) &&
                         piece.find_first_not_of("0123456789-", dot + 1) == std::string_view::npos;
  if (has_tasks) {
    job = piece.substr(0, dot);
    name.tasks = parse_numbers(piece.substr(dot + 1), piece);
  }
  if (job == "@" || job == "last") {
    name.jobs = TaskName::Jobs::newest;
  } else if (job == "all") {
    name.jobs = TaskName::Jobs::all;
  } else if (begins_with_digit(job) && job.find_first_not_of("0123456789-") == std::string_view::npos) {
    name.numbers = parse_numbers(job, piece);
  } else if (job.empty()) {
    refuse_piece(piece, "a job belongs before the dot");
  } else {
    name.jobs = TaskName::Jobs::named;
    name.name = job;
  }
  if (name.tasks && !name.one_job() && name.jobs != TaskName::Jobs::named) refuse_piece(piece, "tasks of one job at a time");
  return name;
}

}  // namespace

std::vector<TaskName> parse_task_names(std::string_view word) {
  std::vector<TaskName> names;
  for (const std::string_view piece : split(word, ',')) names.push_back(parse_name(trim(piece)));
  return names;
}

std::vector<AfterName> parse_after_names(std::string_view word) {
  std::vector<AfterName> all;
  for (std::string_view piece : split(word, ',')) {
    piece = trim(piece);
    AfterName after;
    if (const std::size_t colon = piece.rfind(':'); colon != std::string_view::npos) {
      const std::string condition(piece.substr(colon + 1));
      const auto when = model::parse_after(condition);
      if (!when) {
        const auto near = nearest(condition, std::vector<std::string>{"ok", "any", "fail"});
        throw Error(ErrorCode::usage, fmt::format("--after {}: a condition is ok, any or fail", printable(piece, 60)))
            .hint(near ? fmt::format("did you mean {}?", *near)
                       : "ok: ended with success; any: ended; fail: not every task done");
      }
      after.when = *when;
      piece = piece.substr(0, colon);
    }
    after.name = parse_name(piece);
    if (after.name.jobs == TaskName::Jobs::all) refuse_piece(piece, "a job cannot wait for all jobs, itself among them");
    all.push_back(std::move(after));
  }
  return all;
}

namespace {

// Depth first; `path` is the way from the start to where we are.
class CycleSearch {
 public:
  explicit CycleSearch(const Dependencies& waits_for) : waits_for_(waits_for) {}

  std::vector<std::uint64_t> run() {
    for (const auto& [start, others] : waits_for_) {
      std::vector<Step> path;
      if (!seen_.contains(start)) enter(path, start);
      while (!path.empty()) {
        Step& here = path.back();
        if (here.next == here.others->size()) {
          seen_[here.job] = true;
          path.pop_back();
          continue;
        }
        const std::uint64_t next = (*here.others)[here.next++];
        const auto known = seen_.find(next);
        if (known == seen_.end()) enter(path, next);
        else if (!known->second) return circle(path, next);
      }
    }
    return {};
  }

 private:
  struct Step {
    std::uint64_t job;
    const std::vector<std::uint64_t>* others;
    std::size_t next = 0;
  };

  void enter(std::vector<Step>& path, std::uint64_t job) {
    const auto found = waits_for_.find(job);
    seen_[job] = found == waits_for_.end();
    if (found != waits_for_.end()) path.push_back({job, &found->second});
  }

  static std::vector<std::uint64_t> circle(const std::vector<Step>& path, std::uint64_t from) {
    std::vector<std::uint64_t> jobs;
    for (const Step& step : path)
      if (!jobs.empty() || step.job == from) jobs.push_back(step.job);
    jobs.push_back(from);
    return jobs;
  }

  const Dependencies& waits_for_;
  std::map<std::uint64_t, bool> seen_;           // false: on the path; true: searched to its end, no circle goes through it
};

}  // namespace

std::vector<std::uint64_t> find_cycle(const Dependencies& waits_for) { return CycleSearch(waits_for).run(); }

std::string describe_cycle(const std::vector<std::string>& jobs) {
  std::string text;
  for (std::size_t i = 0; i + 1 < jobs.size(); ++i)
    text += fmt::format("{}{} for {}", i == 0 ? jobs[i] : "", i == 0 ? " waits" : ", which waits", jobs[i + 1]);
  return text;
}

}  // namespace thole::plan
