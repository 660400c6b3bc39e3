// bind: a rank that another launcher starts, or a process that runs.
#include "app/claim/binding_json.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/show/progress.hpp"
#include "cli/show/render_binding.hpp"

namespace thole::cli {

namespace {

int bind_running(Context& context, app::RankSite& site) {
  const Invocation& invocation = context.invocation;
  const pid_t pid = *invocation.bind.pid;
  const model::BindOptions options = context.binding(model::BindOptions::for_command());
  const app::Rebound rebound = app::bind_process(site, pid, options, invocation.request.on);
  if (invocation.global.json)
    context.print_json(rebound_to_json(rebound, pid));
  else
    context.print(fold(render_rebound(rebound, pid), context.screen.columns));
  return 0;
}

int show_ranks(Context& context, const app::Rank& rank) {
  if (!context.invocation.global.json) {
    context.print(fold(render_ranks(rank.binding), context.screen.columns));
    return 0;
  }
  model::Json json = {{"schema", "thole/binding/1"}};
  json.update(binding_to_json(rank.binding));
  context.print_json(json);
  return 0;
}

}  // namespace

int bind(Context& context) {
  const Invocation& invocation = context.invocation;
  app::RankSite site = context.wire.rank_site();
  if (invocation.bind.pid) return bind_running(context, site);

  app::RankRequest wanted;
  wanted.options = context.binding(model::BindOptions::for_command());
  wanted.on = invocation.request.on;
  wanted.gpus_per_rank = invocation.request.gpus;
  wanted.local_rank = invocation.bind.local_rank;
  wanted.ranks = invocation.bind.ranks;
  if (invocation.run.dry_run && wanted.ranks && !wanted.local_rank) wanted.local_rank = 0;  // whichever: all are shown
  const app::Rank rank = app::plan_rank(site, wanted);
  if (invocation.run.dry_run) return show_ranks(context, rank);

  Progress progress(context);
  progress.binding(rank.binding, rank.rank);
  app::become_rank(context.wire.processes(), rank, invocation.words,
                   [&](const app::ReadBack& answer) { progress.bound(rank.binding, rank.rank, answer); });
  return 0;  // not reached
}

}  // namespace thole::cli
