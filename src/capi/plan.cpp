// The C ABI beyond claims: a line of `thole plan --batch`, and binding this process.
#include <unistd.h>

#include "app/claim/bind_running.hpp"
#include "app/claim/binding_json.hpp"
#include "app/show/plan.hpp"
#include "base/error.hpp"
#include "capi/handles.hpp"
#include "model/json_bind.hpp"
#include "wire/machines.hpp"

namespace thole::capi {

namespace {

app::RankRequest rank_request(const char* text, const wire::Config& config) {
  model::RankWishes wishes = model::rank_wishes_from_json(text ? model::parse_json(text, "request") : model::Json::object());
  if (wishes.bind.memory)
    throw Error(ErrorCode::usage, "bind.mem: the memory policy of a process that runs already is not changed")
        .hint("start it through thole_start, thole run or thole bind");
  model::BindWishes configured = config.binding;
  configured.memory.reset();
  app::RankRequest request;
  request.options = wishes.bind.over(configured.over(model::BindOptions::for_command()));
  request.on = std::move(wishes.on);
  request.gpus_per_rank = wishes.gpus_per_rank;
  request.local_rank = wishes.local_rank;
  request.ranks = wishes.ranks;
  return request;
}

}  // namespace

}  // namespace thole::capi

char* thole_plan_answer(thole_machine* machine, const char* request, thole_error** error) {
  using namespace thole;
  return capi::guarded(error, [&] {
    capi::Wires::Lease wire(capi::given(machine, "machine").wires);
    wire::Machines machines(wire->settings());
    app::PlanMachines from;
    from.complete = [&](model::Machine& own) { machines.complete(own); };
    from.named = [&](const std::string& name) -> const model::Snapshot& {
      return name.empty() ? wire->observer().look(wire->settings().probe_cold) : machines.named(name);
    };
    return capi::owned_text(model::dump(app::answer_line(&capi::given(request, "request"), from), -1));
  });
}

char* thole_bind(thole_machine* machine, const char* request, thole_error** error) {
  using namespace thole;
  return capi::guarded(error, [&] {
    const app::RankRequest wanted = capi::rank_request(request, capi::given(machine, "machine").config);
    capi::Wires::Lease wire(machine->wires);
    app::RankSite site = wire->rank_site();
    const pid_t self = ::getpid();
    const app::BoundHere here = app::bind_this_process(site, self, wanted);
    return capi::owned_text(model::dump(app::rebound_to_json(here.bound, self, here.rank)));
  });
}
