#include "app/claim/inside_another.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/claim/selection.hpp"
#include "base/error.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

namespace thole::app {
namespace {

// `shell`: with which the claim ends; 0 where it is that of a command.
[[noreturn]] void refuse(const Site& site, const model::Holding& kept, pid_t shell, std::size_t has, unsigned wanted,
                         const std::string& named) {
  const std::string claim = kept.id.empty() ? "a claim" : "claim " + printable(kept.id, 16);
  const std::string to_end = shell == 0 || kept.id.empty() ? "" : "; to end it: thole release " + printable(kept.id, 16);
  std::string whose, hint = "use its GPUs as they are" + to_end;
  if (kept.uid != site.uid) {
    whose = fmt::format("{} of {}, and only its owner claims within it", claim,
                        kept.user.empty() ? "another user" : printable(kept.user, 32));
    if (!named.empty()) hint += "; to claim others beside them:\n" + unset_claim_in(site.shell);
  } else if (kept.id == named) {
    whose = claim + ", which was made outside of this user namespace, and is claimed within only from there";
    hint += ", or claim before the namespace is entered";
  } else {
    whose = claim + ", which THOLE_CLAIM does not name";
    if (!kept.id.empty())
      hint = fmt::format("to claim {}within it: export THOLE_CLAIM={}",
                         has < wanted ? fmt::format("at most {} ", plural(has, "GPU")) : "", printable(kept.id, 16)) + to_end;
  }
  const std::string end = shell == 0 ? "this has ended" : fmt::format("shell {} has ended, or it is released", shell);
  throw Error(ErrorCode::unavailable, fmt::format("this runs inside {}: its GPUs are not free before {}", whose, end))
      .hint(hint);
}

}  // namespace

void refuse_to_wait_for_oneself(const Site& site, const model::Request& request, const std::vector<std::size_t>& eligible) {
  std::set<std::string> keys;
  for (std::size_t unit : eligible) keys.insert(site.observer.units()[unit].key);
  std::vector<std::string> all;   // also others: a map has several claims, and only one of them is that of what started us
  for (const model::Unit& unit : site.observer.units()) all.push_back(unit.key);
  const std::vector<port::KeptAround> around = site.store.kept_around(all, request.share);
  const auto wanted = std::ranges::count_if(around, [&](const port::KeptAround& kept) { return keys.contains(kept.key); });
  if (keys.size() - static_cast<std::size_t>(wanted) >= request.gpus) return;
  const auto in_environment = site.environment.find("THOLE_CLAIM");
  const std::string inside = in_environment == site.environment.end() ? "" : in_environment->second;
  const std::string named = inside.substr(0, inside.find('/'));
  const std::vector<model::Holding> holdings = site.store.holdings();
  const auto kept_unit = [&](const model::Holding& holding) {
    return std::ranges::find_if(around, [&](const port::KeptAround& kept) {
      return kept.key == holding.key && (kept.keeper == 0 || kept.keeper == holding.pid);
    });
  };
  std::map<pid_t, std::set<std::string>> claims_of;
  for (const model::Holding& holding : holdings)
    if (const auto kept = kept_unit(holding); kept != around.end()) claims_of[kept->launcher].insert(holding.id);
  // Who started us may let go of a claim before we end, but not of one whose command we are.
  std::set<std::string> never;
  std::optional<model::Holding> first;
  pid_t shell = 0;
  for (const model::Holding& holding : holdings) {
    const auto kept = kept_unit(holding);
    if (kept == around.end() || !keys.contains(holding.key)) continue;
    const bool is_ours = kept->launcher != 0 && claims_of[kept->launcher].size() == 1;
    if (!kept->to_the_end && kept->shell == 0 && !is_ours && (named.empty() || holding.id != named)) continue;
    never.insert(kept->key);
    if (first && (first->id == named || holding.id != named)) continue;
    first = holding;
    shell = kept->shell;
  }
  if (first && keys.size() - never.size() < request.gpus) {
    std::set<std::string> its;
    for (const model::Holding& holding : holdings)
      if (holding.id == first->id && holding.uid == first->uid) its.insert(holding.key);
    refuse(site, *first, shell, its.size(), request.gpus, named);
  }
}

void refuse_to_wait_for_own(const Site& site, port::ClaimStore& store, const model::Request& request,
                            const std::vector<std::size_t>& eligible, const std::vector<std::string>& own) {
  if (own.empty()) return;
  std::set<std::string> kept, ids;
  for (const model::Holding& holding : store.holdings()) {
    const auto is_it = [&](const std::string& id) { return last_part(id) == holding.id; };
    if (holding.uid != site.uid || std::ranges::none_of(own, is_it)) continue;
    kept.insert(holding.key);
    ids.insert(holding.id);
  }
  std::vector<std::string> labels;
  for (std::size_t unit : eligible)
    if (kept.contains(site.observer.units()[unit].key)) labels.push_back(site.observer.units()[unit].label);
  if (eligible.size() - labels.size() >= request.gpus) return;
  throw Error(ErrorCode::unavailable,
              fmt::format("GPU{} {}: held by this program's own pool (claim {}), which would be waited for without end",
                          labels.size() == 1 ? "" : "s", join(labels, ", "),
                          join(std::vector<std::string>(ids.begin(), ids.end()), ", ")))
      .hint("end that first (terminate(), or the end of its with block); or claim before it: pools come out of a claim");
}

std::string claim_that_keeps_from(const Overview& overview, const plan::Environment& environment,
                                  const model::Request& request) {
  const auto found = environment.find("THOLE_CLAIM");
  if (found == environment.end() || request.gpus == 0) return "";
  const std::string outermost = found->second.substr(0, found->second.find('/'));
  try {
    const plan::Selection selection = select_of_machine(overview, request);   // the masks are this claim's, not the job's
    const auto is_ours = [&](const model::Holding& holding) {
      return holding.id == outermost && holding.uid == overview.uid && !holding.shared;
    };
    const auto kept = std::ranges::count_if(selection.units, [&](std::size_t unit) {
      return std::ranges::any_of(overview.units[unit].holdings, is_ours);
    });
    return kept > 0 && selection.units.size() - static_cast<std::size_t>(kept) < selection.count ? outermost : "";
  } catch (const Error&) {                       // that it can never be had is told elsewhere
    return "";
  }
}

}  // namespace thole::app
