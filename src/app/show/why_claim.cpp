#include "app/show/why_claim.hpp"

#include <algorithm>

#include "app/claim/taken_back.hpp"
#include "base/text.hpp"
#include "plan/place/why.hpp"

namespace thole::app {

namespace {

// Indices of the overview's units that have one of these keys.
std::vector<std::size_t> units_of(const std::vector<std::string>& keys, const Overview& machine) {
  std::vector<std::size_t> units;
  for (std::size_t unit = 0; unit < machine.units.size(); ++unit)
    if (std::ranges::find(keys, machine.units[unit].unit.key) != keys.end()) units.push_back(unit);
  return units;
}

std::vector<std::string> labels_of(const std::vector<std::size_t>& units, const Overview& machine) {
  std::vector<std::string> labels;
  for (const std::size_t unit : units) labels.push_back(machine.units[unit].unit.label);
  return labels;
}

std::string name_gpus(const std::vector<std::string>& labels) { return labels.empty() ? "no GPU" : "GPU " + join(labels, ","); }

// Those that are its, under its whole id: one a unit.
std::vector<model::Holding> holdings_of(const KeptClaim& claim, std::vector<model::Holding> holdings) {
  std::erase_if(holdings, [&](const model::Holding& one) { return one.id != last_part(claim.id) || one.uid != claim.uid; });
  for (model::Holding& one : holdings) one.id = claim.id;
  return holdings;
}

// "GPU 0,1, claimed by nia since 05:10 (thole claim)"
std::string who_has_it(const std::vector<model::Holding>& holdings, const std::vector<std::string>& gpus,
                       const Overview& machine) {
  if (holdings.empty()) return name_gpus(gpus);
  model::Unit unit;
  unit.key = holdings.front().key;
  const std::vector<model::Unit> units{unit};
  const std::vector<model::Holding> first{holdings.front()};
  const char* how = first.front().overdue ? "no longer claimed" : first.front().shared ? "shared" : "claimed";
  return fmt::format("{}, {} by {}", name_gpus(gpus), how, plan::explain_unit(0, {units, {}, first, {}, machine.now}));
}

// Who has claimed a part of it, by whole id.
std::vector<std::string> claimed_inside(port::ClaimStore& store, const KeptClaim& claim, const Overview& machine) {
  std::vector<KeptClaim> inside;
  for (const model::Holding& holding : store.within(last_part(claim.id))->holdings()) {
    if (!holding.held || holding.id.empty()) continue;
    auto same = std::ranges::find(inside, holding.id, &KeptClaim::id);
    if (same == inside.end()) {
      same = inside.insert(inside.end(), KeptClaim{});
      same->id = holding.id;
      same->command = holding.command;
    }
    same->keys.push_back(holding.key);
  }
  std::vector<std::string> sentences;
  for (const KeptClaim& one : inside)
    sentences.push_back(fmt::format("inside it: claim {}/{}, {} ({})", claim.id, one.id,
                                    name_gpus(labels_of(units_of(one.keys, machine), machine)), printable(one.command, 40)));
  return sentences;
}

}  // namespace

ClaimWhy why_claim(const ClaimSearch& search, const KeptClaim& claim, const Overview& machine, const WaysToEnd& ways_to_end) {
  port::ClaimStore& store = claim.claimed_in(*search.store);
  const std::vector<std::size_t> units = units_of(claim.keys, machine);
  const std::vector<model::Holding> all = store.holdings(), holdings = holdings_of(claim, all);
  ClaimWhy answer{claim.id, labels_of(units, machine), {}};
  answer.sentences.push_back(who_has_it(holdings, answer.gpus, machine));
  const std::vector<std::string> taken = taken_from(*search.store, claim);
  for (const std::string& key : taken) {
    const std::vector<std::size_t> listed = units_of({key}, machine);
    const std::string name = listed.empty() ? printable(key, 60) : machine.units[listed.front()].unit.label;
    answer.sentences.push_back(taken_back_text("GPU " + name));
  }
  for (std::string& sentence : unverified(holdings)) answer.sentences.push_back(std::move(sentence));
  for (std::string& sentence : over_its_time(holdings, machine.now, ways_to_end))
    answer.sentences.push_back(std::move(sentence));
  // Notes of what is claimed inside are its owner's alone to read.
  if (claim.uid == search.uid)
    for (std::string& sentence : claimed_inside(store, claim, machine)) answer.sentences.push_back(std::move(sentence));
  const bool overdue = !holdings.empty() && holdings.front().overdue;
  const bool unused = std::ranges::all_of(units, [&](std::size_t unit) {
    const model::Use& use = machine.units[unit].unit.use_of(machine.snapshot.machine);
    return use.processes.known() && (*use.processes).empty();
  });
  if (unused && !units.empty() && !overdue && taken.empty())
    answer.sentences.emplace_back("no process uses its GPUs at the moment, but the claim holds them");
  return answer;
}

}  // namespace thole::app
