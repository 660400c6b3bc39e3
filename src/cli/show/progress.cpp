#include "cli/show/progress.hpp"

#include <unistd.h>

#include "app/claim/binding_json.hpp"
#include "app/claim/claim_variables.hpp"
#include "app/show/why.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/line/table.hpp"
#include "cli/output.hpp"
#include "cli/show/render_binding.hpp"
#include "cli/show/render_run.hpp"
#include "cli/show/terminal.hpp"

namespace thole::cli {

namespace {

using model::Json;

// Sentences about a wait. A directory that cannot be read now is no reason to stop waiting.
std::vector<std::string> why_it_waits(app::Site& site, const model::Request& request, const model::Wait& wait) {
  try {
    return app::why_waiting(site, request, wait);
  } catch (const Error& error) {
    return {error.full()};
  }
}

// The time that would fit shrinks by the minute: no news.
bool same_standing(const model::Wait& a, const model::Wait& b) {
  return a.behind == b.behind && a.watch == b.watch && a.observe == b.observe && a.promise == b.promise &&
         a.would_fit.has_value() == b.would_fit.has_value() && a.position == b.position &&
         a.could_start_but_for_behind == b.could_start_but_for_behind;
}

}  // namespace

app::RunEvents Progress::events() {
  app::RunEvents events;
  events.waiting = [this](const app::Standing& standing) { waiting(standing); };
  events.got = [this](const app::Acquired& acquired) { got(acquired); };
  events.caution = [this](const std::string& text) { caution(text); };
  events.binding = [this](const app::Binding& plan) { binding(plan, 0); };
  events.bound = [this](const app::Binding& plan, const app::ReadBack& answer) { bound(plan, 0, answer); };
  events.left_behind = [this](const auto& processes, bool waited_for) { left_behind(processes, waited_for); };
  return events;
}

void Progress::say(const char* event, const Json& more) const {
  if (context_.invocation.global.quiet) return;
  Json line = {{"schema", "thole/progress/1"}, {"event", event}};
  line.update(more);
  put_bytes(STDERR_FILENO, model::dump(line, -1) + "\n");
}

bool Progress::waits_not() const { return context_.invocation.request.wait == Millis{0}; }

void Progress::waiting(const app::Standing& standing) {
  if (!since_) since_ = context_.wire.clock().steady();
  if (context_.invocation.global.quiet || (last_ && same_standing(*last_, standing.wait))) return;  // no news
  const std::vector<std::string> why = why_it_waits(standing.site, context_.invocation.request, standing.wait);
  if (context_.invocation.global.json)
    say("waiting", waiting_to_json(standing.wait, why));
  else
    context_.note(render_waiting(why, !waits_not()) +
                  (last_ || waits_not() ? "" : "\n  Ctrl-C leaves the queue"));
  last_ = standing.wait;
}

void Progress::got(const app::Acquired& acquired) {
  const std::string name = name_units(acquired.units, acquired.chosen, context_.wire.observer().snapshot());
  const Seconds waited = since_ ? std::chrono::duration_cast<Seconds>(context_.wire.clock().steady() - *since_) : Seconds{0};
  if (context_.invocation.global.json) {
    Json gpus = Json::array();
    for (std::size_t index : acquired.chosen)
      gpus.push_back({{"gpu", acquired.units[index].label}, {"uuid", acquired.units[index].key}});
    return say("claimed",
               {{"id", acquired.claim.id()}, {"gpus", gpus}, {"why", acquired.explain}, {"waited_s", waited.count()}});
  }
  context_.note(since_ ? fmt::format("{}, after {}", name, format_duration(waited)) : name);
  if (!acquired.explain.empty()) context_.detail(printable(acquired.explain));
  context_.detail(fmt::format("claim {}", acquired.claim.id()));
}

void Progress::caution(const std::string& text) {
  context_.warn(context_.invocation.global.json ? text : printable(text));
}

void Progress::binding(const app::Binding& binding, std::size_t rank) {
  if (context_.invocation.global.json) return;   // told with the answer
  if (context_.invocation.global.verbose)
    for (const std::string& line : describe_binding(binding, rank)) context_.detail(line.substr(2));
  else
    for (const std::string& trouble : binding.troubles_of(rank)) context_.note(printable(trouble));
}

void Progress::bound(const app::Binding& binding, std::size_t rank, const app::ReadBack& answer) {
  if (context_.invocation.global.json) return say("bound", bound_to_json(binding, rank, answer));
  for (const std::string& difference : answer.differences) context_.note(printable(difference));
  if (answer.got.cpus) context_.detail(fmt::format("read back: {}", describe(answer.got)));
}

void Progress::left_behind(const std::vector<std::string>& processes, bool waited_for) {
  if (context_.invocation.global.json) return say("left-behind", {{"processes", processes}});
  std::string text = fmt::format(
      "the command left {} running, {}:", processes.size() == 1 ? "a process" : fmt::format("{} processes", processes.size()),
      waited_for ? "waiting for the end" : "ending what is left");
  for (const std::string& process : some_of(processes)) text += "\n  " + printable(process, 76);
  context_.warn(text);
}

void Progress::ended(const port::Ended& ended) {
  if (context_.invocation.global.json) say("ended", ended_to_json(ended));
}

int show_preview(Context& context) {
  app::Site& site = context.wire.site();
  const app::Preview preview = app::preview(site, context.invocation.request);
  plan::Variables variables;
  if (!preview.chosen.empty() || context.invocation.request.gpus == 0) {
    app::Acquired as_if;
    as_if.claim = port::Claim(app::fresh_claim_id());
    as_if.units = preview.units;
    as_if.chosen = preview.chosen;
    as_if.share_mib = preview.share_mib;
    variables = app::variables(site.observer, as_if, context.invocation.request, context.ids());
    variables.set.erase("THOLE_CLAIM");  // there is none
  }
  std::optional<app::Binding> binding;
  if (!context.invocation.verb->binding.empty() && !preview.chosen.empty()) {
    const model::BindOptions options = context.binding(model::BindOptions::for_command());
    binding = app::plan_binding(site.observer, context.wire.bind_site(), site.environment, options,
                                {app::gpus_of(preview.units, preview.chosen)});
    for (const auto& [name, value] : binding->effects.front().set) variables.set[name] = value;
  }
  std::vector<std::string> why;
  if (const auto* wait = std::get_if<model::Wait>(&preview.decision))
    why = why_it_waits(site, context.invocation.request, *wait);
  const model::Snapshot& snapshot = site.observer.snapshot();
  if (context.invocation.global.json)
    context.print_json(preview_to_json(preview, binding, variables, snapshot, why));
  else
    context.print(render_preview(preview, binding, variables, snapshot, why, context.screen.columns));
  return 0;
}

}  // namespace thole::cli
