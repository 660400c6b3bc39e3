#include "app/holding.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/json_null.hpp"

namespace thole::app {

namespace {

std::vector<KeptClaim> kept_claims(const ClaimSearch& search) {
  std::map<std::pair<std::string, uid_t>, KeptClaim> claims;   // anybody can write another's id into his note
  if (!search.store) return {};
  for (const model::Holding& holding : search.store->holdings()) {
    if (!holding.held || holding.id.empty()) continue;
    KeptClaim& claim = claims[{holding.id, holding.uid}];
    claim.id = holding.id;
    claim.keys.push_back(holding.key);
    claim.uid = holding.uid;
    claim.pid = holding.pid;
    claim.command = holding.command;
  }
  std::vector<KeptClaim> all;
  for (auto& [name, claim] : claims) {
    claim.directory = search.directory(claim.id, claim.uid);
    all.push_back(std::move(claim));
  }
  return all;
}

std::string list(const std::vector<KeptClaim>& claims) {
  if (claims.empty()) return "there are no claims";
  std::string text = "there are:";
  for (const KeptClaim& claim : claims) text += fmt::format("\n  {}  {}", claim.id, printable(claim.command, 50));
  return text;
}

KeptClaim only_one(std::vector<KeptClaim> found, const std::string& what, const std::vector<KeptClaim>& all) {
  if (found.size() == 1) return std::move(found.front());
  if (found.empty()) throw Error(ErrorCode::usage, "no such claim").about(what).hint(list(all));
  throw Error(ErrorCode::usage, "more than one claim fits").about(what).hint(list(found));
}

// Claims on the GPU that the word names; none when it names no GPU.
std::vector<KeptClaim> on_gpu(const Observer& gpus, const std::string& word, const std::vector<KeptClaim>& all) {
  const auto& units = gpus.units();
  std::vector<KeptClaim> found;
  try {
    for (std::size_t unit : plan::resolve(word, gpus.snapshot(), units))
      for (const KeptClaim& claim : all)
        if (std::find(claim.keys.begin(), claim.keys.end(), units[unit].key) != claim.keys.end() &&
            std::none_of(found.begin(), found.end(), [&](const KeptClaim& other) { return other.id == claim.id; }))
          found.push_back(claim);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) throw;
  }
  return found;
}

// The claim this command was typed in: the outermost part of THOLE_CLAIM, which is what the machine's store knows.
std::string here(const plan::Environment& environment) {
  const auto named = environment.find("THOLE_CLAIM");
  return named == environment.end() ? std::string() : named->second.substr(0, named->second.find('/'));
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
  if (gpu.vendor != model::Vendor::nvidia) return "only NVIDIA GPUs have one";
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

// Runs in the holder's process. `inner` keeps the store of an outer claim alive as long as the holder.
port::ToHold acquire_to_hold(RunPorts ports, const HoldRequest& wanted, const RunEvents& events, std::vector<int> cancel,
                             std::unique_ptr<port::ClaimStore>& inner) {
  AcquireOptions options;
  options.command = wanted.command;
  options.enforced = true;                   // a holder lets go at its end
  options.cancel = std::move(cancel);
  options.waiting = events.waiting;
  options.caution = events.caution;
  // Who picks GPUs by their processes sees nothing of a claim before the placeholder is there.
  if (wanted.placeholder) options.alone = [&] { return wanted.placeholder->alone(options.cancel); };
  Acquired acquired = acquire(ports.site, wanted.request, options);
  if (acquired.reused)
    throw Error(ErrorCode::usage, "these GPUs are this claim's already").about(acquired.claim.id)
        .hint("run the command as it is, or claim fewer GPUs than the claim has");
  std::optional<WallTime> until;
  if (wanted.request.time) until = ports.site.clock.wall() + *wanted.request.time;
  plan::Variables variables = app::variables(ports.site, acquired, wanted.request, wanted.ids);
  for (const auto& [name, value] : wanted.carry) variables.set[name] = value;

  port::ToHold held;
  if (wanted.placeholder) {
    put_placeholder(ports.site, acquired, *wanted.placeholder, events);
    acquired.alone.reset();
    held.ending = [placeholder = wanted.placeholder] { placeholder->end(); };
  }
  held.message = claim_json(ports.site, acquired, variables, until).dump();
  held.door.directory = ports.new_directory(acquired.claim.id);
  held.door.about = {acquired.claim.id, 0, true, until};
  for (const Fd& lock : acquired.claim.locks) held.door.locks.push_back(lock.get());
  inner = std::move(acquired.inner_store);
  port::ClaimStore& store = inner ? *inner : ports.site.store;
  held.door.lives = [&store](const std::string& other) { return !store.own_claim(other).empty(); };
  held.door.amend = [&store, id = acquired.claim.id, keys = acquired.claim.keys](std::optional<WallTime> end) {
    return store.amend(port::Claim{id, keys, {}}, end);
  };
  if (wanted.process)
    held.overdue = [&store, id = acquired.claim.id, keys = acquired.claim.keys, process = *wanted.process] {
      return store.amend(port::Claim{id, keys, {}}, std::nullopt, process);
    };
  held.claim = std::move(acquired.claim);
  return held;
}

}  // namespace

KeptClaim find_claim(const ClaimSearch& search, const std::string& word) {
  const std::vector<KeptClaim> all = kept_claims(search);
  const std::string name = word.empty() ? here(search.environment) : word;
  std::vector<KeptClaim> found;
  for (const KeptClaim& claim : all)
    if (name.empty() ? claim.uid == search.uid : claim.id.starts_with(name.substr(0, name.find('/')))) found.push_back(claim);
  if (found.empty() && search.store && !name.empty())   // noted where only its owner can read
    if (auto keys = search.store->own_claim(name.substr(0, name.find('/'))); !keys.empty()) {
      const std::string id = name.substr(0, name.find('/'));
      found.push_back({id, std::move(keys), search.uid, 0, "", search.directory(id, search.uid)});
    }
  if (found.empty() && !word.empty() && !all.empty()) found = on_gpu(search.gpus(), word, all);
  // Mine go before a stranger's of the same name.
  if (std::any_of(found.begin(), found.end(), [&](const KeptClaim& claim) { return claim.uid == search.uid; }))
    std::erase_if(found, [&](const KeptClaim& claim) { return claim.uid != search.uid; });
  KeptClaim claim = only_one(std::move(found), word.empty() ? "which claim?" : word, all);
  if (claim.uid != search.uid && search.uid != 0) {
    const std::string owner = printable(search.user_name(claim.uid), 32);
    throw Error(ErrorCode::unavailable, fmt::format("claim {} is {}'s", claim.id, owner)).about(printable(word, 60)).hint(
        fmt::format("only {} can release, extend or enter it", claim.uid == 0 ? owner : owner + " and root"));
  }
  return claim;
}

model::Json hold(RunPorts ports, const HoldRequest& wanted, const RunEvents& events, const std::vector<int>& cancel) {
  port::HoldSpec spec;
  spec.process = wanted.process;
  std::unique_ptr<port::ClaimStore> inner;
  const std::string message = ports.control.hold(spec, [&](int caller_gone) {
    std::vector<int> ends = cancel;
    ends.push_back(caller_gone);
    return acquire_to_hold(ports, wanted, events, std::move(ends), inner);
  });
  return model::parse_json(message, "the holder's answer");
}

void release(port::ClaimControl& control, const KeptClaim& claim) { control.release(claim.directory); }

WallTime extend(port::ClaimControl& control, const port::Clock& clock, const KeptClaim& claim, Seconds by) {
  const WallTime until = clock.wall() + by;
  control.extend(claim.directory, until);
  return until;
}

model::Json claim_json(const Site& site, const Acquired& acquired, const plan::Variables& variables,
                       std::optional<WallTime> until) {
  model::Json json;
  json["schema"] = "thole/claim/1";
  json["id"] = acquired.claim.id;
  json["gpus"] = gpus_json(site, acquired);
  json["since"] = format_iso(site.clock.wall());
  json["until"] = model::or_null(until);
  json["why"] = acquired.explain;
  json["set"] = variables.set;
  json["unset"] = variables.unset;
  return json;
}

}  // namespace thole::app
