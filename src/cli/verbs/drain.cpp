// drain: no further task starts, until `drain --off`.
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/queue_change.hpp"
#include "cli/queue_site.hpp"

namespace thole::cli {

namespace {

struct DrainOptions {
  bool off = false;
};

constexpr Option drain_options[] = {
  {0, "off", "", "start tasks again", [](DrainOptions& o, const Word&) { o.off = true; }},
};

int drain(Context& context) {
  const bool on = !context.invocation.own.as<DrainOptions>().off;
  const app::Queue queue = queue_of(context);
  const app::Caution caution = app::drain(queue, on);
  const WarnLast warn_last(context, caution);
  if (context.invocation.global.json) print_change(context, {{"schema", "thole/drained/1"}, {"draining", on}});
  else context.note(on ? "drained: what runs may finish, and nothing starts until thole drain --off" : "tasks start again");
  return 0;
}

constexpr Example drain_examples[] = {
  {"thole drain", "what runs may finish, and nothing starts"},
  {"thole drain --off", "start tasks again"},
};

}  // namespace

extern constexpr Verb drain_verb = {
    .name = "drain",
    .group = "queue",
    .summary = "let running tasks finish and start none",
    .options = drain_options,
    .examples = drain_examples,
    .run = drain,
};

}  // namespace thole::cli
