#include "app/claim/holding.hpp"

#include <algorithm>

#include "app/claim/claim_variables.hpp"
#include "app/claim/new_end.hpp"
#include "app/claim/outer_claim.hpp"
#include "base/error.hpp"
#include "base/printable_lines.hpp"
#include "base/text.hpp"
#include "model/json_null.hpp"

namespace thole::app {

namespace {

// What the kernel says after a keeper has said that it let go. The next claim of the same user has a note with another id; who
// has a lock without a note is the old one only as the process that had it.
std::vector<model::Holding> kept_still(const ClaimSearch& search, const KeptClaim& claim) try {
  std::vector<model::Holding> kept = claim.claimed_in(*search.store).holdings();
  const std::string own_id = last_part(claim.id);
  std::erase_if(kept, [&](const model::Holding& holding) {
    const bool its_unit = std::ranges::find(claim.keys, holding.key) != claim.keys.end();
    const bool its_note = holding.id == own_id;
    const bool its_process = holding.id.empty() && holding.pid != 0 && holding.pid == claim.pid;
    return !holding.held || !its_unit || holding.uid != claim.uid || !(its_note || its_process);
  });
  return kept;
} catch (const Error& unseen) {                  // what was done is said first
  throw Error(unseen.code(), fmt::format("claim {} is released; whether anything still holds its GPUs cannot be seen: {}",
                                         claim.id, in_one_line(unseen.without_hint()))).hint(unseen.hint());
}

model::Json gpus_json(const Site& site, const Acquired& acquired) {
  const model::Machine& machine = site.observer.snapshot().machine;
  model::Json gpus = model::Json::array();
  for (std::size_t index : acquired.chosen) {
    const model::Unit& unit = acquired.units[index];
    model::Json gpu;
    gpu["gpu"] = unit.label;
    gpu["uuid"] = unit.key;
    gpu["model"] = unit.model_of(machine);
    const auto memory = unit.memory_mib_of(machine);
    gpu["memory_mib"] = model::or_null(memory);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// Why no placeholder belongs on a unit; "" when one does.
std::string unfit_for_placeholder(const Site& site, const model::Unit& unit) {
  const model::Machine& machine = site.observer.snapshot().machine;
  const model::Gpu& gpu = unit.gpu_of(machine);
  if (site.observer.simulated()) return "a simulated GPU has no driver";
  if (!model::row_of(gpu.vendor).placeholder) return "only NVIDIA GPUs have one";
  if (unit.instance) return "a MIG instance shows its processes to nobody who counts GPUs";
  if (gpu.compute_mode.value_or("") == "exclusive-process") return "its compute mode admits one process, which is to be yours";
  return "";
}

// Those that others would take for free, with the reasons told for those that are left as they are.
// The claim stays in any case.
void put_placeholder(const Site& site, const Acquired& acquired, port::Placeholder& placeholder, const RunEvents& events) {
  const auto without = [&](const std::string& label, const std::string& why) {
    if (events.caution) events.caution(fmt::format("no placeholder on GPU {}: {}", label, why));
  };
  std::vector<std::string> uuids, labels;
  for (std::size_t index : acquired.chosen) {
    const model::Unit& unit = acquired.units[index];
    const std::string why = unfit_for_placeholder(site, unit);
    if (!why.empty()) {
      without(unit.label, why);
      continue;
    }
    uuids.push_back(unit.key);
    labels.push_back(unit.label);
  }
  if (uuids.empty()) return;
  try {
    placeholder.put(uuids);
  } catch (const Error& error) {
    without(join(labels, ","), error.full());
  }
}

// Asks whether the claim around this inner one lives.
std::function<bool()> outer_lives(Site& site, const std::string& id) {
  const std::string outer = id.substr(0, id.rfind('/'));
  const std::vector<OuterClaim> around = claims_around(site.store, site.environment);
  if (around.empty() || around.front().id != outer) return [] { return false; };   // it has ended already
  const std::shared_ptr<port::ClaimStore> inner = around.size() > 1 ? around[1].store : nullptr;
  return [&machine = site.store, inner, part = last_part(outer)] {
    return !(inner ? *inner : machine).own_claim(part).empty();
  };
}

// Does anybody else keep this claim of ours, whose keeper has let it go?
bool goes_on(port::ClaimStore& store, const std::string& id, uid_t uid) {
  const std::vector<model::Holding> all = store.holdings();
  return std::ranges::any_of(all, [&](const model::Holding& holding) {
    return holding.held && holding.uid == uid && holding.id == last_part(id);
  });
}

// Runs in the holder's process. `inner` keeps the store of an outer claim alive as long as the holder.
port::ToHold acquire_to_hold(RunPorts ports, const HoldRequest& wanted, const RunEvents& events, std::vector<int> cancel,
                             const port::HoldCaller& caller, std::shared_ptr<port::ClaimStore>& inner) {
  AcquireOptions options;
  options.command = wanted.command;
  options.enforced = true;                   // a holder lets go at its end
  options.keeps_around = false;              // ... and at that of the claim around
  options.cancel = std::move(cancel);
  options.cancel.push_back(caller.gone);
  if (caller.process >= 0) options.cancel.push_back(caller.process);
  options.stands_still = caller.is_stopped;
  options.waiting = events.waiting;
  options.caution = events.caution;
  // Who picks GPUs by their processes sees nothing of a claim before the placeholder is there.
  if (wanted.placeholder) options.alone = [&] { return wanted.placeholder->alone(options.cancel); };
  Acquired acquired = acquire(ports.site, wanted.request, options);
  if (acquired.claim.is_all_of_another())
    throw Error(ErrorCode::usage, "these GPUs are this claim's already").about(acquired.claim.id())
        .hint("run the command as it is, or claim fewer GPUs than the claim has");
  std::optional<WallTime> until;
  if (wanted.request.time) until = ports.site.clock.wall() + *wanted.request.time;
  plan::Variables variables = app::variables(ports.site.observer, acquired, wanted.request, wanted.ids);
  for (const auto& [name, value] : wanted.carry) variables.set[name] = value;

  port::ToHold held;
  if (wanted.placeholder) {
    put_placeholder(ports.site, acquired, *wanted.placeholder, events);
    acquired.alone.reset();
    held.ending = [placeholder = wanted.placeholder] { placeholder->end(); };
  }
  model::Json::to_cbor(claim_json(ports.site, acquired, variables, until), held.message);   // paths of any bytes
  held.door.directory = ports.new_directory(acquired.claim.id());
  held.door.about = {acquired.claim.id(), 0, true, until};
  inner = std::move(acquired.inner_store);
  if (inner) held.outer_lives = outer_lives(ports.site, acquired.claim.id());
  port::ClaimStore& store = inner ? *inner : ports.site.store;
  held.door.lives = [&store](const std::string& other) { return !store.own_claim(other).empty(); };
  held.door.amend = [&store, &site = ports.site, claim = end_of_claim(acquired)](std::optional<WallTime> end) {
    return amend_end(store, site, claim, end);
  };
  if (wanted.process)
    held.overdue = [&store, id = acquired.claim.id(), process = *wanted.process, uid = ports.site.uid] {
      if (goes_on(store, id, uid)) return false;
      return store.amend(id, std::nullopt, process);
    };
  held.claim = std::move(acquired.claim);
  return held;
}

}  // namespace

model::Json hold(RunPorts ports, const HoldRequest& wanted, const RunEvents& events, const std::vector<int>& cancel,
                 const std::function<void(const model::Json&)>& tell) {
  model::Json claim;
  port::HoldSpec spec;
  spec.process = wanted.process;
  spec.for_shell = wanted.for_shell;
  spec.tell = [&](const std::string& message) { tell(claim = model::Json::from_cbor(message)); };
  std::shared_ptr<port::ClaimStore> inner;
  ports.control.hold(spec, [&](const port::HoldCaller& caller) {
    return acquire_to_hold(ports, wanted, events, cancel, caller, inner);
  });
  return claim;
}

void ask_keeper(const KeptClaim& claim, const std::function<void()>& ask) try {
  ask();
} catch (const port::NobodyToAsk&) {
  if (!claim.job) throw;
  throw Error(ErrorCode::unavailable, fmt::format("claim {} is job {}'s of your queue, and its lane cannot be asked", claim.id,
                                                  *claim.job))
      .hint(fmt::format("thole cancel {} ends it with the job", *claim.job));
}

void release(const ClaimSearch& search, port::ClaimControl& control, const KeptClaim& claim) {
  ask_keeper(claim, [&] { control.release(claim.address()); });
  const std::vector<model::Holding> kept = kept_still(search, claim);
  if (kept.empty()) return;
  std::string units;
  const Observer& gpus = search.gpus();
  for (const model::Holding& holding : kept) {
    const auto unit = model::index_of(holding.key, gpus.units());
    units += (units.empty() ? "" : ", ") + (unit ? "GPU " + gpus.units()[*unit].label : printable(holding.key, 60));
  }
  const std::string end = control.ways_to_end(claim.id, claim.uid);
  throw Error(ErrorCode::unavailable,
              fmt::format("{} {} still held: claim {} goes on", units, kept.size() > 1 ? "are" : "is", claim.id))
      .hint(end.empty() ? "thole status shows who holds it" : "what was started in it keeps the GPUs; to end it:" + end);
}

WallTime extend(port::ClaimControl& control, const port::Clock& clock, const KeptClaim& claim, Seconds by) {
  const WallTime until = clock.wall() + by;
  ask_keeper(claim, [&] { control.extend(claim.address(), until); });
  return until;
}

model::Json claim_json(const Site& site, const Acquired& acquired, const plan::Variables& variables,
                       std::optional<WallTime> until) {
  model::Json json;
  json["schema"] = "thole/claim/1";
  json["id"] = acquired.claim.id();
  json["gpus"] = gpus_json(site, acquired);
  json["since"] = format_iso(site.clock.wall());
  json["until"] = model::or_null(until);
  json["why"] = acquired.explain;
  json["set"] = variables.set;
  json["unset"] = variables.unset;
  return json;
}

}  // namespace thole::app
