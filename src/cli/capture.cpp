#include "app/capture.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"

namespace thole::cli {

int capture(Context& context) {
  const CaptureOptions& options = context.invocation.capture;
  app::Observer& observer = context.wire.observer();
  observer.read_topology();
  const model::Snapshot& snapshot = observer.look(context.wire.settings().probe_cold);
  for (const model::Observation& observation : snapshot.observations)
    if (!observation.problem.empty()) context.warn(fmt::format("{}: {}", observation.backend, printable(observation.problem)));
  const std::string text = model::dump(model::to_json(app::captured(snapshot.machine, {options.use, options.anonymous}))) + "\n";
  if (options.output.empty() || options.output == "-") {
    context.print(text);
  } else {
    write_file(options.output, text);
    context.note(fmt::format("{} GPUs written; try it: thole --machine {} status", snapshot.machine.gpus.size(), shell_quote(options.output)));
  }
  return 0;
}

}  // namespace thole::cli
