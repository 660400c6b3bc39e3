#include "app/claim/wish.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/selection.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

constexpr Millis first_pause{100}, longest_pause{10'000};  // between looks at a driver that is late

}  // namespace

port::Question question_for(const model::Request& request) {
  const bool by_load = request.beside != model::Beside::none || request.pick == model::Pick::load;
  return {by_load ? port::Purpose::show : port::Purpose::claim, {}};
}

plan::Selection select_in_time(const Site& site, const model::Request& request, const AcquireOptions& options,
                               const OuterClaim* within, std::optional<SteadyTime> deadline,
                               const std::optional<Allotment>& allotted) {
  const bool may_wait = options.awaits_driver && request.wait != Seconds{0};
  bool said = false;
  for (Millis pause = first_pause;; pause = std::min(pause * 2, longest_pause)) {
    plan::Selection selection = select(site, request, within, allotted);
    const std::string late = may_wait ? late_ones(site, request, selection) : "";
    const SteadyTime now = site.clock.steady();
    if (late.empty() || (deadline && now >= *deadline)) return selection;
    if (!std::exchange(said, true) && options.caution)
      options.caution(fmt::format("the driver has not answered about {} yet: waiting for it", late));
    if (deadline) pause = std::min(pause, std::chrono::ceil<Millis>(*deadline - now));
    if (any_ready(options.cancel, pause)) wait_interrupted();
    site.observer.look(site.patience, question_for(request));
  }
}

bool may_come_back(const Error& error) {
  return error.code() == ErrorCode::usage || error.code() == ErrorCode::unavailable;
}

Wish wish_for(const Site& site, const model::Request& asked, const AcquireOptions& options, const OuterClaim* within) {
  Wish wish{asked, asked, {}, {}, options.allotted, {}};
  if (asked.wait) wish.deadline = site.clock.steady() + *asked.wait;
  if (!wish.allotted) wish.allotted = allotted(site, within);
  if (options.had) wish.request = of_those_there(asked, site);
  try {
    plan::Selection selection = select_in_time(site, wish.request, options, within, wish.deadline, wish.allotted);
    wish.lasting.gpus = wish.request.gpus = selection.count;   // a partitioned GPU named as a whole counts as all its instances
    wish.eligible = eligible_units(site, wish.request, std::move(selection));
  } catch (const Error& error) {
    if (!options.had || options.had->empty() || !may_come_back(error)) throw;
    wish.lack = error;
  }
  for (model::Request* request : {&wish.request, &wish.lasting})
    if (!options.enforced) request->time.reset();   // a length that nobody enforces passes nobody: it could break a promise
  wish.lasting = by_lasting_names(std::move(wish.lasting), site);
  return wish;
}

void wait_interrupted() { throw Error(ErrorCode::interrupted, "the wait was interrupted"); }

}  // namespace thole::app
