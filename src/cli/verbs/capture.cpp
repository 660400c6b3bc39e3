#include "app/show/capture.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/result_place.hpp"
#include "wire/import.hpp"

namespace thole::cli {

namespace {

// One line an element, so that a person can read and edit it: a large machine has hundreds of CPUs.
std::string as_machine_file(const model::Json& machine) {
  std::string text;
  for (const auto& [key, value] : machine.items()) {
    text += fmt::format("{} {}: ", text.empty() ? "{\n" : ",\n", model::dump(key, -1));
    if (!value.is_array() || value.empty()) {
      text += model::dump(value, -1);
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i)
      text += fmt::format("{}\n  {}", i == 0 ? "[" : ",", model::dump(value[i], -1));
    text += "\n ]";
  }
  return text + "\n}\n";
}

model::Machine look(Context& context) {
  app::Observer& observer = context.wire.observer();
  const model::Snapshot& snapshot = observer.look(context.wire.settings().probe_cold);
  for (const model::Observation& observation : snapshot.observations)
    if (!observation.problem.empty()) context.warn(fmt::format("{}: {}", observation.backend, printable(observation.problem)));
  if (const std::string problem = observer.topology_problem(); !problem.empty()) context.warn(printable(problem));
  return snapshot.machine;
}

}  // namespace

int capture(Context& context) {
  const CaptureOptions& options = context.invocation.capture;
  refuse_input_as_result(context, "--output", options.output, options.from);
  std::vector<std::string> doubts;
  const model::Machine machine =
      options.from.empty() ? look(context) : wire::import_machine(context.wire.settings(), options.from, doubts);
  for (const std::string& doubt : doubts) context.warn(doubt);
  const std::string text = as_machine_file(model::to_json(app::captured(machine, {options.use, options.anonymous})));
  if (options.output.empty() || options.output == "-") {
    context.copy(text);
  } else {
    write_result(result_place(options.output), text);
    context.note(fmt::format("{} GPU{} written; try it: thole --machine {} status", machine.gpus.size(),
                             machine.gpus.size() == 1 ? "" : "s", shell_quote(options.output)));
  }
  return 0;
}

}  // namespace thole::cli
