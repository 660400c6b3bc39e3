#include "app/claim/acquire.hpp"

#include <utility>

#include "app/claim/choice.hpp"
#include "app/claim/entering.hpp"
#include "app/claim/inside_another.hpp"
#include "app/claim/line_as_told.hpp"
#include "app/claim/selection.hpp"

namespace thole::app {

Preview preview(Site& site, const model::Request& asked) {
  site.observer.look(site.patience);
  std::optional<OuterClaim> outer = outer_claim(site.store, site.environment);
  const plan::Selection selection = select(site, asked, outer ? &*outer : nullptr);
  model::Request request = asked;
  request.gpus = selection.count;                // a partitioned GPU named as a whole counts as all its instances
  Preview seen;
  seen.units = site.observer.units();
  if (outer) seen.share_mib = outer->share_mib;
  Choice choice(site, request, in_use(outer ? &*outer : nullptr, request));
  if (!outer) choice.avoid(parts_of_claimed(seen.units, site.observer.snapshot().machine, site.store));
  choice.set_eligible(eligible_units(site, request, selection, outer ? &*outer : nullptr));
  if (request.gpus == 0) { seen.decision = model::Take{}; return seen; }
  if (outer && reuses(&*outer, request)) {
    Acquired whole = reuse(site, *outer, choice.eligible());
    seen.decision = model::Take{};
    seen.chosen = numbered(site, request, true, std::move(whole.chosen));
    seen.explain = whole.explain;
    return seen;
  }
  // A rule that decides and then refuses leaves no trace in the queue.
  port::ClaimStore& store = outer ? *outer->store : site.store;
  port::Entry entry = entry_for(request, {}, keys_of(site, choice.eligible()));
  entry.only_looks = true;
  auto ticket = store.enter(std::move(entry));
  (void)ticket->step([&](const auto& queue, auto mine, const auto& wants, auto now) -> model::Decision {
    seen.decision = choice(queue, mine, wants, now);
    return model::Refuse{false, "only looking"};
  });
  const bool waits = std::holds_alternative<model::Wait>(seen.decision);
  if (waits && !outer) refuse_to_wait_for_oneself(site, request, choice.eligible());
  if (std::holds_alternative<model::Take>(seen.decision)) {
    seen.chosen = numbered(site, request, outer.has_value(), choice.chosen());
    seen.explain = choice.explain();
  } else if (auto free = choice.if_all_were_free()) {
    seen.chosen = numbered(site, request, outer.has_value(), std::move(free->units));
    seen.explain = std::move(free->explain);
  }
  return seen;
}

}  // namespace thole::app
