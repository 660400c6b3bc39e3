#include "cli/progress.hpp"

#include <unistd.h>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/render_run.hpp"

namespace thole::cli {

namespace {

using model::Json;

// Who holds what, for the message only: a directory that cannot be read now is no reason to stop waiting.
std::vector<model::Holding> holdings_of(wire::Wire& wire) {
  try {
    return wire.store().holdings();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

app::RunEvents Progress::events() {
  app::RunEvents events;
  events.waiting = [this](const app::Standing& standing) { waiting(standing); };
  events.got = [this](const app::Acquired& acquired) { got(acquired); };
  events.caution = [this](const std::string& text) { caution(text); };
  events.left_behind = [this](const std::vector<std::string>& processes) { left_behind(processes); };
  return events;
}

void Progress::say(const char* event, const Json& more) const {
  if (context_.invocation.global.quiet) return;
  Json line = {{"schema", "thole/progress/1"}, {"event", event}};
  line.update(more);
  write_all(STDERR_FILENO, model::dump(line, -1) + "\n");
}

void Progress::waiting(const app::Standing& standing) {
  if (!since_) since_ = context_.wire.clock().steady();
  const std::string text = render_waiting(standing.wait, standing.units, holdings_of(context_.wire), context_.wire.clock().wall());
  if (text == last_) return;
  last_ = text;
  if (context_.invocation.global.json) say("waiting", waiting_to_json(standing.wait));
  else context_.note(text);
}

void Progress::got(const app::Acquired& acquired) {
  const std::string name = name_units(acquired.units, acquired.chosen, context_.wire.observer().snapshot());
  const Seconds waited = since_ ? std::chrono::duration_cast<Seconds>(context_.wire.clock().steady() - *since_) : Seconds{0};
  if (context_.invocation.global.json) {
    Json gpus = Json::array();
    for (std::size_t index : acquired.chosen) gpus.push_back({{"gpu", acquired.units[index].label}, {"uuid", acquired.units[index].key}});
    return say("claimed", {{"id", acquired.claim.id}, {"gpus", gpus}, {"why", acquired.explain}, {"waited_s", waited.count()}});
  }
  context_.note(since_ ? fmt::format("{}, after {}", name, format_duration(waited)) : name);
  if (!acquired.explain.empty()) context_.detail(printable(acquired.explain));
  context_.detail(fmt::format("claim {}", acquired.claim.id));
}

void Progress::caution(const std::string& text) {
  if (context_.invocation.global.json) say("caution", {{"message", text}});
  else context_.warn(printable(text));
}

void Progress::left_behind(const std::vector<std::string>& processes) {
  if (context_.invocation.global.json) return say("left-behind", {{"processes", processes}});
  std::string text = fmt::format("the command left {} running, {}:", processes.size() == 1 ? "a process" : fmt::format("{} processes", processes.size()),
                                 context_.invocation.run.linger ? "waiting for the end" : "ending what is left");
  for (const std::string& process : processes) text += "\n  " + printable(process, 76);
  context_.warn(text);
}

void Progress::ended(const port::Ended& ended) {
  if (context_.invocation.global.json) say("ended", ended_to_json(ended));
}

int show_preview(Context& context) {
  app::Site& site = context.wire.site();
  const app::Preview preview = app::preview(site, context.invocation.request);
  plan::Variables variables;
  if (!std::holds_alternative<model::Wait>(preview.decision)) {
    app::Acquired as_if;
    as_if.claim.id = app::fresh_claim_id();
    as_if.units = preview.units;
    as_if.chosen = preview.chosen;
    variables = app::variables(site, as_if, context.invocation.request, context.ids());
    variables.set.erase("THOLE_CLAIM");   // there is none
  }
  const model::Snapshot& snapshot = site.observer.snapshot();
  if (context.invocation.global.json) context.print_json(preview_to_json(preview, variables, snapshot));
  else context.print(render_preview(preview, variables, snapshot, holdings_of(context.wire), context.wire.clock().wall()));
  return 0;
}

}  // namespace thole::cli
