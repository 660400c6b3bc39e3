#include "app/queue/submit.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <span>

#include "app/claim/run.hpp"
#include "app/queue/job_files.hpp"
#include "app/queue/job_names.hpp"
#include "base/error.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "plan/job/items.hpp"
#include "plan/job/names.hpp"
#include "plan/job/submission.hpp"
#include "plan/job/sweep.hpp"
#include "plan/job/sweep_template.hpp"

namespace thole::app {

using model::JobSpec;
using port::Submission;

namespace {

void add_items(Submission& made, plan::ReadItems read) {
  made.spec.sweep.columns = std::move(read.columns);
  made.items = std::move(read.items);
}

// The variables and how many tasks they make.
void add_sweep(Submission& made, const SubmitWish& wish) {
  if (wish.csv && wish.lines) throw Error(ErrorCode::usage, "--csv and --each-line exclude each other");
  if (wish.csv) add_items(made, plan::parse_csv(wish.csv->text, wish.csv->name));
  if (wish.lines) add_items(made, plan::parse_lines(wish.lines->text, wish.lines->name));
  if (!wish.array.empty()) {
    plan::ArrayWord array = plan::parse_array(wish.array);
    made.spec.sweep.grid.push_back(std::move(array.index));
    if (array.at_most && !made.terms.at_most) made.terms.at_most = array.at_most;
  }
  for (const std::string& word : wish.grid) made.spec.sweep.grid.push_back(plan::parse_grid(word));
  made.tasks = plan::tasks_of(made.spec.sweep, made.items.empty() ? 1 : made.items.size());
  plan::check_command(made.spec);
}

// A variable that no word of the command names changes nothing between tasks, which is seldom meant.
void note_unused(const Submission& made, std::vector<std::string>& notes) {
  const JobSpec& spec = made.spec;
  const auto named = plan::fields_in(spec.argv);
  const bool names_any = std::ranges::any_of(spec.sweep.grid, [&](const model::GridVariable& variable) {
    return named.contains(variable.name);
  });
  for (const model::GridVariable& variable : spec.sweep.grid)
    if (variable.name != "index" && !named.contains(variable.name))
      notes.push_back(fmt::format("the command does not name {{{}}}{}", variable.name,
                                  names_any ? ": its values make no difference to it"
                                            : ": tasks differ by THOLE_TASK_INDEX alone"));
  std::vector<std::string> columns;
  for (const std::string& column : spec.sweep.columns) {
    // A line stands in {} too, where check_command has put it if the command had no field.
    const bool filled = named.contains(column) || (column == "line" && named.contains(""));
    if (!filled) columns.push_back("{" + printable(column, 40) + "}");
  }
  if (!columns.empty()) notes.push_back("the command does not name " + join(columns, ", "));
}

// "seed=1-3" is one value, as it stands; a range was meant more often.
void note_ranges(const Submission& made, std::vector<std::string>& notes) {
  for (const model::GridVariable& variable : made.spec.sweep.grid) {
    if (variable.range || variable.values.size() != 1) continue;
    const auto numbers = split(variable.values.front(), '-');
    if (numbers.size() == 2 && parse_u64(numbers[0]) && parse_u64(numbers[1]))
      notes.push_back(fmt::format("{0}={1} is one value; the numbers between: {0}={2}..{3}", variable.name,
                                  variable.values.front(), numbers[0], numbers[1]));
  }
}

// Files need not know the instances of a GPU: before a name is refused the drivers are asked.
plan::Luggage luggage_of(SubmitSite& site, const model::Request& request) {
  const auto by = [&](const Observer& observer) {
    return plan::luggage(site.environment, request, observer.snapshot(), observer.units(), site.shell);
  };
  try {
    return by(site.glance);
  } catch (const Error&) {
    site.observer.look(site.patience);
    return by(site.observer);
  }
}

void add_luggage(Submission& made, SubmitSite& site, const SubmitWish& wish, std::vector<std::string>& notes) {
  plan::Luggage taken = luggage_of(site, made.spec.request);
  if (!taken.masked_by.empty())
    notes.push_back(fmt::format("{} is set, so it may use these GPUs only: {}", taken.masked_by, join(taken.on, ", ")));
  made.spec.request.on = std::move(taken.on);
  made.spec.request.not_on = std::move(taken.not_on);
  made.spec.request.order = std::move(taken.order);
  made.spec.environment = std::move(taken.environment);
  for (const std::string& variable : wish.env) {
    if (model::is_mask(std::string_view(variable).substr(0, variable.find('='))))
      throw Error(ErrorCode::usage, fmt::format("--env {}: which GPUs a task sees is set when it has them",
                                                printable(variable.substr(0, variable.find('=')))))
          .hint("--on 0,1 asks for these GPUs or some of them");
    const std::string_view name = std::string_view(variable).substr(0, variable.find('=') + 1);
    std::erase_if(made.spec.environment, [&](const std::string& known) { return known.starts_with(name); });
    made.spec.environment.push_back(variable);
  }
}

plan::Environment as_map(const std::vector<std::string>& environment) {
  plan::Environment map;
  for (const std::string& variable : environment)
    map[variable.substr(0, variable.find('='))] = variable.substr(variable.find('=') + 1);
  return map;
}

// Refuses what this machine can never give. Files know the GPUs of a machine and seldom their memory, so before a refusal the
// drivers are asked; one that does not answer now may do so when the job's turn comes.
void check_possible(SubmitSite& site, const JobSpec& spec) {
  if (spec.request.gpus == 0 && spec.request.on.empty()) return;
  const auto refused = [&](const Observer& observer) -> std::exception_ptr {
    plan::Outer outer = plan::outer_allotment(observer.snapshot(), observer.units(), as_map(spec.environment));
    outer.shell = site.shell;
    try {
      const plan::Selection could = plan::eligible(spec.request, observer.snapshot(), observer.units(), outer);
      if (!spec.request.share && could.units.size() < std::size_t{could.count} + spec.leave)
        throw_refusal(true, fmt::format("--leave {} of the {} that would do leaves fewer than the {} asked for", spec.leave,
                                        plural(could.units.size(), "GPU"), could.count));
      return nullptr;
    } catch (const Error&) {
      return std::current_exception();           // as it is: NeverPossible stays that
    }
  };
  if (!refused(site.glance)) return;
  site.observer.look(site.patience);
  const auto& observations = site.observer.snapshot().observations;
  if (std::any_of(observations.begin(), observations.end(), [](const auto& one) { return !one.answered; })) return;
  if (const std::exception_ptr error = refused(site.observer)) std::rethrow_exception(error);
}

// It would end at once, done.
void refuse_without_script(const JobSpec& spec) {
  if (!plan::awaits_script(spec.argv)) return;
  const std::string program = printable(spec.argv.front(), 60);
  throw Error(ErrorCode::usage, fmt::format("{} would read its script from stdin, which is empty for a job", program))
      .hint(fmt::format("save the script: thole submit {0} FILE; to type at it: thole run {0}", program));
}

// A command that cannot run is said now and not in the morning. What a task's values make of it is not known yet, and what
// earlier jobs will have made need not be there.
void check_program(const SubmitSite& site, const SubmitWish& wish, const JobSpec& spec, std::vector<std::string>& notes) {
  if (spec.argv.empty() || !plan::fields_in(std::span(spec.argv).first(1)).empty()) return;
  port::ProcessSpec program;
  program.argv = {spec.argv.front()};
  program.cwd = spec.directory;
  program.base = &spec.environment;
  try {
    site.processes.check_program(program);
  } catch (const Error& error) {
    if (wish.after.empty()) throw;
    notes.push_back(fmt::format("{} (so far; it waits for others): {}", error.what(), printable(spec.argv.front(), 60)));
  }
}

Submission prepare_one(SubmitSite& site, const SubmitWish& wish, std::vector<std::string>& notes) {
  Submission made;
  made.spec = wish.spec;
  made.terms = wish.terms;
  made.if_absent = wish.if_absent;
  if (wish.snapshot) made.spec.snapshot = ".";
  add_sweep(made, wish);
  if (made.spec.name.empty() && made.if_absent) made.spec.name = command_line(made.spec.argv);
  note_unused(made, notes);
  note_ranges(made, notes);
  add_luggage(made, site, wish, notes);
  refuse_without_script(made.spec);
  check_program(site, wish, made.spec, notes);
  check_possible(site, made.spec);
  if (made.spec.per_gpu > 1 && made.tasks == 1) notes.push_back("--per-gpu goes with several tasks; this job has one");
  return made;
}

// The files that a job finds by name first of all: its directory and its program.
void add_files(const JobSpec& spec, std::vector<std::string>& files) {
  files.push_back(spec.directory);
  for (const std::string& there : program_paths(spec))
    if (may_execute(there)) return files.push_back(there);
}

// Which wishes wait for which others of the same call, by name; the other words of --after are left in `outside`.
struct Within {
  std::vector<std::pair<std::size_t, model::After>> inside;
  std::vector<std::string> outside;
};

Within sort_after(const SubmitWish& wish, const std::map<std::string, std::size_t>& positions) {
  Within sorted;
  for (const std::string& words : wish.after)
    for (const std::string_view word : split(words, ',')) {
      const plan::AfterName after = plan::parse_after_names(word).front();
      const auto here = positions.find(after.name.name);
      if (after.name.jobs == plan::TaskName::Jobs::named && here != positions.end())
        sorted.inside.emplace_back(here->second, after.when);
      else sorted.outside.emplace_back(word);
    }
  return sorted;
}

// Positions so that each comes after those it waits for, otherwise as they stood.
std::vector<std::size_t> in_order(const std::vector<SubmitWish>& wishes, const std::vector<Within>& after) {
  plan::Dependencies waits_for;
  for (std::size_t i = 0; i < after.size(); ++i)
    for (const auto& [other, when] : after[i].inside) waits_for[i].push_back(other);
  if (const auto circle = plan::find_cycle(waits_for); !circle.empty()) {
    std::vector<std::string> names;
    for (const std::uint64_t position : circle) names.push_back(wishes[position].spec.name);
    throw Error(ErrorCode::usage, "jobs that wait for each other would never start: " + plan::describe_cycle(names));
  }
  std::vector<std::size_t> order;
  std::vector<bool> placed(wishes.size());
  while (order.size() < wishes.size())
    for (std::size_t i = 0; i < wishes.size(); ++i)
      if (!placed[i] &&
          std::all_of(after[i].inside.begin(), after[i].inside.end(), [&](const auto& one) { return placed[one.first]; })) {
        placed[i] = true;
        order.push_back(i);
      }
  return order;
}

}  // namespace

std::vector<std::string> command_of(const Submission& submission, model::TaskIndex task) {
  const std::vector<std::string> cells =
      submission.items.empty() ? std::vector<std::string>() : submission.items.row(plan::item_of(submission.spec.sweep, task));
  return plan::task_command(submission.spec, 0, task, cells);
}

Prepared prepare(SubmitSite& site, std::vector<SubmitWish> wishes) {
  Prepared prepared;
  std::map<std::string, std::size_t> positions;
  for (std::size_t i = 0; i < wishes.size(); ++i)
    if (const std::string& name = wishes[i].spec.name; !name.empty() && !positions.emplace(name, i).second)
      throw Error(ErrorCode::usage, fmt::format("two jobs named {}", printable(name, 60))).about(wishes[i].about);
  std::vector<Within> after;
  for (const SubmitWish& wish : wishes) after.push_back(sort_after(wish, positions));
  const std::vector<std::size_t> order = in_order(wishes, after);
  for (const std::size_t i : order) {
    try {
      Submission made = prepare_one(site, wishes[i], prepared.notes);
      made.terms.after = dependencies(site.jobs, after[i].outside);
      for (const auto& [other, when] : after[i].inside)
        made.after_earlier.emplace_back(static_cast<std::size_t>(std::find(order.begin(), order.end(), other) - order.begin()),
                                        when);
      prepared.submissions.push_back(std::move(made));
    } catch (const Error& error) {
      if (wishes[i].about.empty()) throw;
      throw Error(error.code(), wishes[i].about + ": " + error.what()).about(error.object()).hint(error.hint());
    }
  }
  return prepared;
}

Stored submit(Queue queue, const std::vector<Submission>& submissions) {
  Stored stored;
  std::vector<std::string> files;
  for (const Submission& one : submissions) add_files(one.spec, files);
  stored.surroundings = queue.door.surroundings(files);
  stored.draining = queue.store.draining();      // before: what fails afterwards would hide that they are stored
  stored.jobs = queue.store.submit(submissions, queue.clock.wall());
  try {
    queue.door.stir();
  } catch (const Error& error) {
    stored.caution = "it is queued, but nothing can start it now: " + error.full() +
                     "\n  any later thole command that looks at the queue tries again, such as: thole jobs";
  }
  return stored;
}

}  // namespace thole::app
