#include "cli/line/table.hpp"

#include "cli/line/words.hpp"

namespace thole::cli {

namespace {

// The rows follow one shape, so that they can be read as a table: letter, name, value, help, what it sets, what completes it.
constexpr Option global_rows[] = {
  {0, "machine", "FILE|NAME", "use a simulated machine: a machine file, a shipped name (dgx-a100), or a shorthand (8xA100)",
   [](Globals& g, const Word& w) { g.machine = text_of(w); }, Offer::machines},
  {0, "state-dir", "DIR", "keep claims in DIR (created when missing)",
   [](Globals& g, const Word& w) { g.state_dir = text_of(w); }, Offer::directories},
  {0, "queue-dir", "DIR", "use the queue in DIR (created when missing)",
   [](Globals& g, const Word& w) { g.queue_dir = text_of(w); }, Offer::directories},
  {0, "json", "", "print one JSON document with a versioned schema instead of text",
   [](Globals& g, const Word&) { g.json = true; }},
  {'q', "quiet", "", "say nothing on stderr but errors and warnings", [](Globals& g, const Word&) { g.quiet = true; }},
  {'v', "verbose", "", "say more on stderr", [](Globals& g, const Word&) { g.verbose = true; }},
  {0, "no-color", "", "no colours and no bold (also: NO_COLOR in the environment)",
   [](Globals& g, const Word&) { g.no_color = true; }},
  {'h', "help", "", "show help and exit", [](Globals& g, const Word&) { g.help = true; }},
  {0, "version", "", "show the version and exit", [](Globals& g, const Word&) { g.version = true; }},
};

}  // namespace

std::span<const Option> global_options() { return global_rows; }

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : verbs())
    if (verb.name == name) return &verb;
  return nullptr;
}

std::vector<const Option*> options_of(const Verb& verb) {
  std::vector<const Option*> all;
  for (std::span<const Option> rows : {verb.options, verb.request, verb.binding, global_options()})
    for (const Option& row : rows) all.push_back(&row);
  return all;
}

}  // namespace thole::cli
