#include "plan/job/submission.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/environment/told.hpp"

namespace thole::plan {

namespace {

// What thole sets for the GPUs of a claim beside the vendors' variables (docs/environment.md).
constexpr std::string_view of_claims[] = {"XLA_PYTHON_CLIENT_MEM_FRACTION", "TF_FORCE_GPU_ALLOW_GROWTH", "UCX_NET_DEVICES",
                                          "NCCL_IB_HCA"};

// What describes the task we may be in, with or without a claim.
constexpr std::string_view of_tasks[] = {"THOLE_TASK", "THOLE_JOB", "THOLE_TASK_INDEX", "THOLE_RUN"};

template <std::size_t n>
bool among(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool set_beside_a_mask(std::string_view name) {
  return std::ranges::any_of(model::vendors, [&](const model::VendorRow& row) {
    const auto beside = model::filled(row.beside);
    return name == row.pci_order.name || std::ranges::find(beside, name, &model::Setting::name) != beside.end();
  });
}

using Units = std::set<std::size_t>;

Units visible_in(const Environment& environment, const model::Snapshot& snapshot, const std::vector<model::Unit>& units) {
  const Outer outer = outer_allotment(snapshot, units, environment);
  Units visible;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (outer.visible[i]) visible.insert(i);
  return visible;
}

// Of the claim we are inside of.
Units claimed(const ToldGpus& told, const std::vector<model::Unit>& units) {
  Units found;
  for (const std::string& key : told.keys())
    if (const auto unit = model::index_of(key, units)) found.insert(*unit);
  return found;
}

// `request.on` within what the user's own mask shows.
std::vector<std::string> narrowed(const model::Request& request, const Units& visible, const Outer& outer,
                                  const model::Snapshot& snapshot, const std::vector<model::Unit>& units,
                                  const AskShell& shell) {
  Units wanted;
  for (const std::string& word : request.on)
    for (const std::size_t unit : resolve(word, snapshot, units)) wanted.insert(unit);
  std::vector<std::string> on;
  for (const std::size_t unit : visible)
    if (request.on.empty() || wanted.contains(unit)) on.push_back(units[unit].key);
  if (on.empty())
    throw Error(ErrorCode::usage, fmt::format("{} leaves none of the GPUs asked for", outer.named_by))
        .hint(unset_in(shell, outer.variables));
  return on;
}

}  // namespace

Luggage luggage(const Environment& environment, const model::Request& request, const model::Snapshot& snapshot,
                const std::vector<model::Unit>& units, const AskShell& shell) {
  Luggage result;
  const auto claim = environment.find("THOLE_CLAIM");
  result.inside_claim = claim != environment.end() && !claim->second.empty();

  // What the masks alone narrow, beside an engine's allotment, which a job finds in its environment as it is.
  Environment unmasked = environment;
  std::erase_if(unmasked, [](const auto& entry) { return model::is_mask(entry.first); });
  const Units with = visible_in(environment, snapshot, units), without = visible_in(unmasked, snapshot, units);
  bool users_own = with != without;
  if (users_own && result.inside_claim) {
    const auto told = ToldGpus::read(environment);
    users_own = told && !told->all_shown_by(environment) && with != claimed(*told, units);
  }
  for (const auto& [words, lasting] : {std::pair{&request.on, &result.on}, {&request.not_on, &result.not_on},
                                       {&request.order, &result.order}})
    for (const std::string& word : *words) lasting->push_back(lasting_name(word, snapshot, units));
  if (users_own && request.gpus > 0) {
    const Outer outer = outer_allotment(snapshot, units, environment);
    result.masked_by = outer.named_by;
    result.on = narrowed(request, with, outer, snapshot, units, shell);
  }
  for (const auto& [name, value] : environment) {
    if (model::is_mask(name) || among(of_tasks, name)) continue;
    const bool of_the_claim = name.starts_with("THOLE_") || among(of_claims, name) || set_beside_a_mask(name);
    if (result.inside_claim && of_the_claim) continue;
    result.environment.push_back(name + "=" + value);
  }
  return result;
}

}  // namespace thole::plan
