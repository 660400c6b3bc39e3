#include "app/show/doctor.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/want.hpp"
#include "base/words.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/show/overview.hpp"
#include "model/json_null.hpp"
#include "wire/queue.hpp"
#include "wire/survey.hpp"

namespace thole::cli {

namespace {

using app::Check;

Ink ink_of_result(Check::Result result) {
  switch (result) {
    case Check::Result::ok: return Ink::green;
    case Check::Result::warning: return Ink::yellow;
    default: return Ink::red;
  }
}

std::string render(const std::vector<Check>& checks, const Screen& screen) {
  std::string text;
  for (const Check& check : checks) {
    const std::string result = ink(screen, ink_of_result(check.result), app::to_string(check.result));
    const std::string pad(8 - std::min<std::size_t>(7, std::string_view(app::to_string(check.result)).size()), ' ');
    std::string body = paragraph(screen, fmt::format("{}: {}", check.name, printable(check.text)), 10, 8);
    text += result + pad + body;
    if (!check.fix.empty()) text += "        fix: " + paragraph(screen, printable(check.fix), 13, 13);
  }
  const auto count = [&](Check::Result result) {
    return static_cast<std::size_t>(std::ranges::count(checks, result, &Check::result));
  };
  const auto problems = count(Check::Result::problem), warnings = count(Check::Result::warning);
  if (problems == 0 && warnings == 0) return text + "All is well.\n";
  return text + plural(problems, "problem") + ", " + plural(warnings, "warning") + "\n";
}

model::Json checks_to_json(const std::vector<Check>& checks, const std::string& claims, const app::Directories& directories) {
  model::Json list = model::Json::array();
  for (const Check& check : checks)
    list.push_back({{"name", check.name},
                    {"result", app::to_string(check.result)},
                    {"text", check.text},
                    {"fix", model::or_null(check.fix)}});
  return {{"schema", "thole/doctor/1"},
          {"checks", std::move(list)},
          {"directories",
           {{"claims", model::or_null(claims)},
            {"personal", model::or_null(directories.personal.path)},
            {"caches", model::or_null(directories.personal.path)},
            {"queue", model::or_null(directories.queue.path)},
            {"logs", model::or_null(directories.logs)},
            {"other_queues", directories.other_queues}}}};
}

// Of the variables that mean nothing those that look like a setting, and what was meant.
std::vector<std::string> cautions_of(const std::vector<std::string>& unknown) {
  const std::string prefix = "THOLE_";
  std::map<std::string, std::string> meant;      // by what stands behind the prefix
  for (const Verb& verb : verbs())
    for (const Option* option : options_of(verb)) {
      std::string name(option->name);
      std::ranges::replace(name, '-', '_');
      meant[name] = fmt::format("it is said on the line: --{}", option->name);
    }
  std::vector<std::string> names, cautions;
  for (const wire::ConfigKey& key : wire::config_keys())
    if (!key.variable.empty())
      meant[to_lower(key.variable.substr(prefix.size()))] = fmt::format("did you mean {}?", key.variable);
  for (const auto& [name, what] : meant) names.push_back(name);
  for (const std::string& variable : unknown)
    if (const auto near = nearest(variable.substr(prefix.size()), names))
      cautions.push_back(fmt::format("the variable {} means nothing to thole; {}", printable(variable, 60), meant[*near]));
  return cautions;
}

std::optional<pid_t> stopped_runner(Context& context) {
  try {
    wire::Queue* queue = context.wire.find_queue();
    return queue ? queue->door().stopped_runner() : std::nullopt;
  } catch (const Error&) {                       // told with the directories
    return std::nullopt;
  }
}

int doctor(Context& context) {
  const SteadyTime before = context.wire.clock().steady();
  context.wire.observer().look(context.wire.settings().status_patience, {port::Purpose::examine, {}});
  const Millis took = std::chrono::duration_cast<Millis>(context.wire.clock().steady() - before);
  std::optional<port::StoreAbout> store;
  try {
    if (port::ClaimStore* found = context.wire.find_store()) store = found->about();
  } catch (const Error&) {  // told by the overview
  }
  // Of that look: another one for show would forget what is asked for an examination alone.
  const app::Overview overview = wire::overview_of(context.wire, context.wire.observer(), wire::IfUnknown::tell);
  const model::Surroundings surroundings = wire::survey(context.wire.settings(), store ? store->directory : "");
  const app::Directories directories = wire::directories(context.wire);
  std::vector<std::string> cautions = context.config.cautions;
  for (std::string& caution : cautions_of(context.config.unknown)) cautions.push_back(std::move(caution));
  const std::vector<Check> checks = app::examine({.overview = overview,
                                                  .surroundings = surroundings,
                                                  .store = store,
                                                  .config_files = context.config.files,
                                                  .config_cautions = cautions,
                                                  .look = took,
                                                  .topology_problem = context.wire.observer().topology_problem(),
                                                  .directories = directories,
                                                  .config_mistakes = context.config.mistakes,
                                                  .state_dir = context.wire.settings().state_dir,
                                                  .stopped_runner = stopped_runner(context),
                                                  .shell = wire::shell_above,
                                                  .want = too_few_descriptors()});
  if (context.invocation.global.json)
    context.print_json(checks_to_json(checks, store ? store->directory : "", directories));
  else
    context.print(render(checks, context.screen));
  return 0;
}

constexpr Example doctor_examples[] = {
  {"thole doctor", "what is wrong on this machine and how to mend it"},
  {"thole doctor --json", "the same for a program"},
};

}  // namespace

extern constexpr Verb doctor_verb = {
    .name = "doctor",
    .group = "machine",
    .summary = "what is wrong, and how to mend it",
    .examples = doctor_examples,
    .goes_on_anyway = true,
    .run = doctor,
};

}  // namespace thole::cli
