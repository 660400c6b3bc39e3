#include "app/show/capture.hpp"

#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/result_target.hpp"
#include "wire/import.hpp"

namespace thole::cli {

namespace {

struct CaptureOptions {
  std::string output;  // "" = stdout
  std::string from;    // another program's file or a folder; "" = this machine
  bool use = false;
  bool anonymous = false;
};

constexpr Option capture_options[] = {
  {'o', "output", "FILE", "write to FILE instead of stdout",
   [](CaptureOptions& o, const Word& w) { o.output = text_of(w); }, Offer::files},
  {0, "from", "FILE|DIR", "take the machine from hwloc XML, nvidia-smi topo -m, nvidia-smi -q -x, or a folder with its /sys "
   "and /proc; - is stdin",
   [](CaptureOptions& o, const Word& w) { o.from = text_of(w); }, Offer::files},
  {0, "use", "", "keep the present use too: memory, load, processes", [](CaptureOptions& o, const Word&) { o.use = true; }},
  {0, "anonymous", "", "leave out the machine's and the users' names and the command lines; number the UUIDs",
   [](CaptureOptions& o, const Word&) { o.anonymous = true; }},
};

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

int capture(Context& context) {
  const CaptureOptions& options = context.invocation.own.as<CaptureOptions>();
  refuse_input_as_result(context, "--output", options.output, options.from);
  std::vector<std::string> doubts;
  const model::Machine machine =
      options.from.empty() ? look(context) : wire::import_machine(context.wire.settings(), options.from, doubts);
  for (const std::string& doubt : doubts) context.warn(doubt);
  const std::string text = as_machine_file(model::to_json(app::captured(machine, {options.use, options.anonymous})));
  if (options.output.empty() || options.output == "-") {
    context.copy(text);
  } else {
    write_result(options.output, text);
    context.note(fmt::format("{} GPU{} written; try it: thole --machine {} status", machine.gpus.size(),
                             machine.gpus.size() == 1 ? "" : "s", shell_quote(options.output)));
  }
  return 0;
}

constexpr Example capture_examples[] = {
  {"thole capture -o lab.json", "this machine as a file; elsewhere: thole --machine lab.json"},
  {"thole capture --from node7.xml -o node7.json", "another one, from what lstopo node7.xml wrote there"},
  {"thole capture --use --anonymous", "with the present use, without names; to attach to a report"},
};

}  // namespace

extern constexpr Verb capture_verb = {
    .name = "capture",
    .group = "machine",
    .summary = "this machine, or another, as a file",
    .options = capture_options,
    .examples = capture_examples,
    .run = capture,
};

}  // namespace thole::cli
