#include "app/claim/wish.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/selection.hpp"
#include "base/stream.hpp"

namespace thole::app {

port::Question question_for(const model::Request& request) {
  const bool by_load = request.beside != model::Beside::none || request.pick == model::Pick::load;
  return {by_load ? port::Purpose::show : port::Purpose::claim, {}};
}

bool may_come_back(const Error& error) {
  return error.code() == ErrorCode::usage || error.code() == ErrorCode::unavailable;
}

Wish wish_for(const Site& site, const model::Request& asked, const AcquireOptions& options, const OuterClaim* within,
              std::optional<SteadyTime> deadline, bool in_line) {
  Wish wish{asked, asked, {}, {}, {}, options.allotted, deadline};
  const bool had_any = options.had && !options.had->empty();
  const bool in_time = !deadline || site.clock.steady() < *deadline;
  // Who had some stands in line as it is.
  const bool may_wait = options.awaits_driver && asked.wait != Seconds{0} && in_time && !had_any;
  if (!wish.allotted) wish.allotted = allotted(site, within);
  if (options.had) wish.request = of_those_there(asked, site);
  try {
    plan::Selection selection = select(site, wish.request, within, wish.allotted);
    wish.lasting.gpus = wish.request.gpus = selection.count;   // a partitioned GPU named as a whole counts as all its instances
    if (may_wait) wish.late = late_ones(site, wish.request, selection);
    wish.eligible = selection.units;
    if (wish.late.empty()) wish.eligible = eligible_units(site, wish.request, std::move(selection), within);
  } catch (const Error& error) {
    const bool is_sickness = !wish.eligible.empty();   // they would do, and cannot be used
    if (had_any ? !may_come_back(error) : !(in_line && in_time && is_sickness)) throw;
    if (had_any) wish.eligible.clear();          // what it had is what it stands for
    wish.lack = error;
  }
  for (model::Request* request : {&wish.request, &wish.lasting})
    if (!options.enforced) request->time.reset();   // a length that nobody enforces passes nobody: it could break a promise
  wish.lasting = by_lasting_names(std::move(wish.lasting), site);
  return wish;
}

void heed_interruption(const AcquireOptions& options) {
  if (!options.cancel.empty() && any_ready(options.cancel, Millis{0})) wait_interrupted();
}

void wait_interrupted() { throw Error(ErrorCode::interrupted, "the wait was interrupted"); }

}  // namespace thole::app
