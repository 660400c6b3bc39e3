#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "app/show/overview_json.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/meanwhile.hpp"
#include "cli/show/overview.hpp"
#include "cli/show/render.hpp"
#include "cli/show/watched.hpp"
#include "wire/overview.hpp"
#include "wire/survey.hpp"

namespace thole::cli {

namespace {

struct StatusOptions {
  bool list = false;
  std::optional<Millis> watch;  // redraw this often; absent = once
};

constexpr bool is_seconds(std::string_view next) { return !next.empty() && next.front() >= '0' && next.front() <= '9'; }

constexpr Option status_options[] = {
  {0, "list", "", "index, UUID and name of each GPU, tab-separated", [](StatusOptions& o, const Word&) { o.list = true; }},
  {'w', "watch", "[TIME]", "show again every TIME (default 2s) until Ctrl-C",
   [](StatusOptions& o, const Word& w) { o.watch = w.text.empty() ? Seconds{2} : positive_duration_of(w); },
   Offer::nothing, {}, is_seconds},
};

constexpr Millis unnoticed{300};  // a driver that answers within this is not worth a word

// As --on takes them: "0,1", "0-2".
std::vector<std::string> named(const Context& context) {
  std::vector<std::string> all;
  for (const std::string& word : context.invocation.words)
    for (std::string& gpu : gpus_of({"thole status", word})) all.push_back(std::move(gpu));
  return all;
}

std::string text_of(Context& context, const app::Overview& overview, const Screen& screen) {
  const std::vector<std::string> words = named(context);
  if (context.invocation.own.as<StatusOptions>().list) return render_list(overview);
  if (!words.empty()) return render_gpus(overview, app::gpus_named(words, overview), screen);
  return render_status(overview, screen);
}

model::Json json_of(Context& context, const app::Overview& overview) {
  const std::vector<std::string> words = named(context);
  if (context.invocation.own.as<StatusOptions>().list) return list_to_json(overview);
  if (!words.empty()) return gpus_to_json(overview, app::gpus_named(words, overview));
  return status_to_json(overview);
}

void watch(Context& context, Millis interval) {
  Watched watched(context);
  do {
    const app::Overview overview = look_over(context);
    const Screen screen = watched.screen();
    if (context.invocation.global.json) {
      context.print_json(json_of(context, overview), -1);
      continue;
    }
    const std::string head = fmt::format("every {}: thole status, {}; q ends it\n", format_duration(interval),
                                         format_local(overview.now, overview.now));
    watched.show((screen.terminal() ? head : "") + text_of(context, overview, screen), screen);
  } while (watched.wait({}, interval));
}

// Who has what does not depend on the driver, so that nobody at a terminal waits for it longer than he must: the table follows
// when the driver has answered, or when it has had its time. A program that reads the result gets the table only.
void say_claims(const Context& context) {
  try {
    wire::Wire wire(context.wire.settings());  // a Wire serves one thread
    context.print(render_claims(wire::overview_of(wire, wire.glance()), context.screen) + "\n");
  } catch (const Error&) {  // the table will say the same
  }
}

// A name with a mistake in it looks like a machine that nobody uses.
void tell_of_absent(Context& context) {
  try {
    const auto absent = wire::absent_state_dir(context.wire);
    if (!absent) return;
    const std::string what = "there is no state directory " + printable(context.wire.settings().state_dir) + " yet";
    if (absent->problem.empty()) context.note(what + ": nobody claims there");
    else context.warn(what + ", and it cannot be made: " + absent->problem);
  } catch (const Error&) {                       // told by the table
  }
}

int status(Context& context) {
  const StatusOptions& options = context.invocation.own.as<StatusOptions>();
  if (options.watch) {
    watch(context, *options.watch);
    return 0;
  }
  const bool table = !context.invocation.global.json && !options.list && context.invocation.words.empty();
  std::optional<Meanwhile> meanwhile;
  if (table && context.screen.terminal()) meanwhile.emplace(unnoticed, [&context] { say_claims(context); });
  const app::Overview overview = look_over(context);
  meanwhile.reset();
  if (context.invocation.global.json)
    context.print_json(json_of(context, overview));
  else
    context.print(text_of(context, overview, context.screen));
  if (!context.invocation.global.json) tell_of_absent(context);
  return 0;
}

constexpr Example status_examples[] = {
  {"thole", "who has what"},
  {"thole status 3", "all that is known of GPU 3"},
  {"thole --machine dgx-a100 status", "the same on a simulated machine"},
};

}  // namespace

extern constexpr Verb status_verb = {
    .name = "status",
    .group = "see",
    .summary = "who has what: one line a GPU",
    .operands = "[GPU...]",
    .options = status_options,
    .examples = status_examples,
    .offer = Offer::gpus,
    .max_words = 128,
    .run = status,
};

}  // namespace thole::cli
