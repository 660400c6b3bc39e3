#include "plan/place/why.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/words.hpp"
#include "plan/turn/schedule.hpp"

namespace thole::plan {

namespace {

std::string describe(const model::Holding& holding, WallTime now) {
  std::string text = holding.user.empty() ? "somebody unknown" : printable(holding.user, 32);
  if (!holding.verified && !holding.user.empty()) text += " (unverified)";
  if (holding.shared && holding.memory_mib) text += " with " + format_mib(*holding.memory_mib);
  if (holding.since != WallTime{}) text += " since " + format_local(holding.since, now);
  if (holding.overdue) text += ", overdue";
  else if (holding.until && *holding.until <= now) text += ", its time is over since " + format_local(*holding.until, now);
  else if (holding.until) text += ", until " + format_local(*holding.until, now);
  if (!holding.command.empty()) text += " (" + printable(holding.command, 40) + ")";
  return text;
}

// Each once: "mallory (unverified), 15 times".
std::vector<std::string> counted(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names)
    if (std::ranges::find(once, name) == once.end()) once.push_back(name);
  for (std::string& name : once)
    if (const auto times = std::ranges::count(names, name); times > 1) name += fmt::format(", {} times", times);
  return once;
}

// "GPU 3: …", "GPUs 0,1: …": units kept by the same are named together.
std::vector<std::string> describe_units(const std::vector<std::size_t>& eligible, const Scene& scene, const std::string& free) {
  constexpr std::size_t most_lines = 6;
  struct Kept { std::vector<std::string> labels; std::string by; };
  std::vector<Kept> all;
  for (const std::size_t unit : eligible) {
    std::string by = explain_unit(unit, scene);
    if (by.empty()) by = free;
    auto same = std::find_if(all.begin(), all.end(), [&](const Kept& kept) { return kept.by == by; });
    if (same == all.end()) same = all.insert(all.end(), {{}, by});
    same->labels.push_back(scene.units[unit].label);
  }
  std::vector<std::string> lines;
  std::size_t unnamed = 0;
  for (const Kept& kept : all) {
    const char* noun = kept.labels.size() == 1 ? "GPU" : "GPUs";
    if (lines.size() < most_lines) lines.push_back(fmt::format("{} {}: {}", noun, join(kept.labels, ","), kept.by));
    else unnamed += kept.labels.size();
  }
  if (unnamed > 0) lines.push_back(fmt::format("and {} more", unnamed));
  return lines;
}

std::string describe_place(const model::Wait& wait, const Scene& scene) {
  std::string text = wait.position == 1 ? "next in line" : ordinal(wait.position) + " in line";
  const auto before = std::find_if(scene.queue.begin(), scene.queue.end(),
                                   [&](const model::Waiting& other) { return wait.behind && other.ticket == *wait.behind; });
  if (before == scene.queue.end()) return text;
  const std::string who = before->user.empty() ? "somebody" : printable(before->user, 32);
  text += fmt::format(", behind {} ({}, since {})", who, plural(before->count, "GPU"), format_local(before->since, scene.now));
  if (before->stopped) text += ", who is stopped";
  if (wait.could_start_but_for_behind) text += ", whose GPUs are free";
  if (!wait.yields_to.empty()) text += ", who may start now as you may, and declared less";
  return text;
}

}  // namespace

std::string ordinal(unsigned number) {
  const bool teen = number % 100 >= 11 && number % 100 <= 13;
  const char* ending = teen ? "th" : number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
  return fmt::format("{}{}", number, ending);
}

std::string explain_unit(std::size_t unit, const Scene& scene) {
  std::vector<std::string> holders;
  for (const model::Holding& holding : scene.holdings)
    if ((holding.held || holding.overdue) && holding.key == scene.units[unit].key)
      holders.push_back(describe(holding, scene.now));
  if (!holders.empty()) return join(counted(holders), " and ");
  return unit < scene.verdicts.size() ? scene.verdicts[unit].why : "";
}

std::vector<std::string> explain_wait(const model::Wait& wait, const model::Request& request,
                                      const std::vector<std::size_t>& eligible, const Scene& scene) {
  std::vector<std::string> lines{describe_place(wait, scene)};
  const auto is_free = [&](std::size_t unit) { return explain_unit(unit, scene).empty(); };
  const auto free_ones = std::ranges::count_if(eligible, is_free);   // enough: they came free after the decision
  const bool enough = request.gpus == 1 || static_cast<std::size_t>(free_ones) >= request.gpus + request.leave;
  const std::string free = wait.behind ? "free, but not your turn" : enough ? "free" : "free, and too few";
  for (std::string& line : describe_units(eligible, scene, free)) lines.push_back(std::move(line));
  if (request.leave > 0)
    lines.push_back(fmt::format("leaves {} to others: starts while {} are free", request.leave, request.gpus + request.leave));
  if (wait.promise) lines.push_back("starts by " + format_local(*wait.promise, scene.now) + " at the latest");
  else lines.push_back("no start can be promised");
  if (wait.would_fit) {
    const std::string most = format_duration(typed_later(*wait.would_fit));
    lines.push_back(*wait.would_fit >= longest_time ? "with any --time it would start now"
                                                    : "with --time " + most + " or less it would start now");
  }
  return lines;
}

}  // namespace thole::plan
