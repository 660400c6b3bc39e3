// The words of a request, for the verbs that take one: which GPUs, and how long to wait. And what several verbs say of a claim.
#pragma once

#include <iterator>
#include <span>

#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "model/request.hpp"

namespace thole::cli {

inline constexpr Option request_rows[] = {
  {'g', "gpus", "N", "how many GPUs (default 1; 0 claims none and hides all)",
   [](model::Request& r, const Word& w) { r.gpus = count_of(w); }},
  {0, "on", "GPU,...", "only these: index, 0:1 for an instance, UUID or a prefix of it, PCI address",
   [](model::Request& r, const Word& w) { r.on = gpus_of(w); }, Offer::gpus},
  {0, "not", "GPU,...", "none of these", [](model::Request& r, const Word& w) { r.not_on = gpus_of(w); }, Offer::gpus},
  {0, "model", "TEXT", "only GPUs whose model name contains TEXT, such as A100",
   [](model::Request& r, const Word& w) { r.model = text_of(w); }, Offer::models},
  {0, "memory", "SIZE", "free memory needed on each GPU, such as 20G; with --share: the budget (required)",
   [](model::Request& r, const Word& w) { r.memory_mib = size_mib_of(w); }},
  {0, "share", "", "share a GPU with others that said --share, within memory budgets",
   [](model::Request& r, const Word&) { r.share = true; }},
  {0, "share-with", "any", "share with other users too (GPUs leak between users)",
   [](model::Request& r, const Word& w) {
     r.share_with = choice_of(w, "any|same-user") == "any" ? model::ShareWith::any : model::ShareWith::same_user; },
   Offer::choices, "any|same-user"},
  {0, "beside", "WHOSE", "take a GPU although unclaimed processes use it: none, mine or any (default none; mine with --share)",
   [](model::Request& r, const Word& w) { r.beside = *model::parse_beside(choice_of(w, "none|mine|any")); },
   Offer::choices, "none|mine|any"},
  {0, "max-load", "PERCENT", "with --beside: at most this utilisation, such as 20%; 0.2 means the same (default 50%)",
   [](model::Request& r, const Word& w) { r.max_load_percent = percent_of(w); }},
  {0, "max-memory", "PERCENT", "with --beside: at most this much of the memory in use (default 50%)",
   [](model::Request& r, const Word& w) { r.max_memory_percent = percent_of(w); }},
  {0, "pick", "ORDER", "which of the free GPUs: pack (default), first, last, random, load or memory",
   [](model::Request& r, const Word& w) { r.pick = *model::parse_pick(choice_of(w, "pack|first|last|random|load|memory")); },
   Offer::choices, "pack|first|last|random|load|memory"},
  {0, "shape", "SHAPE", "how they talk to each other: collective (default), pairwise or independent",
   [](model::Request& r, const Word& w) { r.shape = *model::parse_shape(choice_of(w, "collective|pairwise|independent")); },
   Offer::choices, "collective|pairwise|independent"},
  {0, "order", "GPU,...", "take these first, in this order, before any other; the job numbers them so, too",
   [](model::Request& r, const Word& w) { r.order = gpus_of(w); }, Offer::gpus},
  {0, "trust-claims", "", "only claims count; do not ask the driver who uses the GPUs",
   [](model::Request& r, const Word&) { r.trust_claims = true; }},
  in_whole_seconds({'t', "time", "TIME",
   "how long it will take, such as 8h: a limit for `run` and `submit`, the end of a `claim`; lets others plan",
   [](model::Request& r, const Word& w) { r.time = run_time_of(w); }}),
  {0, "wait", "TIME", "wait at most this long, such as 30m (default: as long as it takes)",
   [](model::Request& r, const Word& w) { r.wait = duration_of(w); }},
  {0, "no-wait", "", "do not wait: exit 75 when not enough are free",
   [](model::Request& r, const Word&) { r.wait = Seconds{0}; }},
};
inline constexpr std::span<const Option> which_gpus = std::span(request_rows).first(std::size(request_rows) - 3);
// A job waits as long as it takes, in the queue.
inline constexpr std::span<const Option> request_without_wait = std::span(request_rows).first(std::size(request_rows) - 2);

inline constexpr Option dry_run_row = {0, "dry-run", "", "show what would be claimed and why these, and claim nothing",
   [](Invocation& i, const Word&) { i.dry_run = true; }};
inline constexpr Option ids_row = {0, "ids", "FORM", "what CUDA_VISIBLE_DEVICES holds: auto (default), uuid or index",
   [](Invocation& i, const Word& w) { i.ids = choice_of(w, "auto|uuid|index"); }, Offer::choices, "auto|uuid|index"};

// Of a line of a verb that takes them: completes what one word says of another. Throws Error(usage).
void check_request(Invocation& line);

}  // namespace thole::cli
