#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/overview.hpp"
#include "cli/render.hpp"

namespace thole::cli {

namespace {

std::string text_of(Context& context, const app::Overview& overview, const Screen& screen) {
  const std::vector<std::string>& words = context.invocation.words;
  if (context.invocation.status.list) return render_list(overview);
  if (!words.empty()) return render_gpus(overview, app::gpus_named(words, overview), screen);
  return render_status(overview, screen);
}

model::Json json_of(Context& context, const app::Overview& overview) {
  const std::vector<std::string>& words = context.invocation.words;
  if (context.invocation.status.list) return list_to_json(overview);
  if (!words.empty()) return gpus_to_json(overview, app::gpus_named(words, overview));
  return status_to_json(overview);
}

// Redraws in place: each line is overwritten and its rest cleared, so nothing flickers. More lines than the screen has would
// scroll it; they are left out.
std::string over_the_last(std::string_view text, std::size_t rows) {
  std::string frame = "\x1b[H";
  std::size_t used = 0;
  for (std::string_view line : split_lines(text)) {
    if (++used >= rows) break;
    frame += fmt::format("{}\x1b[K\n", line);
  }
  return frame + "\x1b[J";
}

[[noreturn]] void watch(Context& context, Seconds interval) {
  bool first = true;
  for (;;) {
    const app::Overview overview = look_over(context);
    const Screen screen = screen_of(STDOUT_FILENO, !context.screen.colors);  // the window may have been resized
    if (context.invocation.global.json) {
      context.print(model::dump(json_of(context, overview), -1) + "\n");
    } else if (screen.terminal()) {
      const std::string head =
          fmt::format("every {}: thole status, {}\n", format_duration(interval), format_local(overview.now, overview.now));
      context.print((first ? "\x1b[2J" : "") + over_the_last(head + text_of(context, overview, screen), screen.rows));
    } else {
      context.print((first ? "" : "\n") + text_of(context, overview, screen));
    }
    first = false;
    const timespec pause{static_cast<time_t>(interval.count()), 0};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

app::Overview look_over(Context& context) {
  const wire::Settings& settings = context.wire.settings();
  app::Observer& observer = context.wire.observer();
  observer.look(settings.status_patience);
  port::ClaimStore* store = nullptr;
  std::string problem;
  try {  // after the driver, which may take seconds: who has what is shown as it is now
    store = context.wire.find_store();
  } catch (const Error& error) {  // the GPUs are worth seeing even where nothing can be claimed
    problem = error.full();
  }
  return app::look_over({.observer = observer,
                         .store = store,
                         .claims_problem = problem,
                         .environment = settings.environment,
                         .policy = settings.free_policy,
                         .clock = context.wire.clock(),
                         .uid = settings.uid});
}

int status(Context& context) {
  if (context.invocation.status.watch) watch(context, *context.invocation.status.watch);
  const app::Overview overview = look_over(context);
  if (context.invocation.global.json)
    context.print_json(json_of(context, overview));
  else
    context.print(text_of(context, overview, context.screen));
  return 0;
}

}  // namespace thole::cli
