// The words about binding, for the verbs that start or bind processes.
#pragma once

#include "cli/line/binding_words.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "model/bind_wishes.hpp"

namespace thole::cli {

inline constexpr Option binding_rows[] = {
  {0, "bind", "MODE", "the CPUs it gets: none, node, package, exclusive, l3, core:N or compat (default node, the package "
   "where the node is short of cores)",
   [](model::BindWishes& b, const Word& w) { set_bind_mode(b, w); },
   Offer::choices, "none|node|package|exclusive|l3|core:1|compat"},
  {0, "mem", "POLICY", "memory: first-touch (default), or preferred, bind, interleave on its nodes; :NODES names others",
   [](model::BindWishes& b, const Word& w) { set_memory_policy(b, w); },
   Offer::choices, "first-touch|preferred|bind|interleave"},
  {0, "smt", "THREADS", "all threads of its cores, or one (default all)",
   [](model::BindWishes& b, const Word& w) { b.smt = *model::parse_smt(choice_of(w, "all|one")); }, Offer::choices, "all|one"},
  {0, "nic", "WHICH", "UCX_NET_DEVICES and NCCL_IB_HCA name the near NICs (default), all, or none",
   [](model::BindWishes& b, const Word& w) { b.nic = *model::parse_nic_mode(choice_of(w, "near|all|none")); },
   Offer::choices, "near|all|none"},
  {0, "threads", "N|auto", "set OMP_NUM_THREADS and its like, where unset, to N or to the number of cores",
   [](model::BindWishes& b, const Word& w) { set_threads(b, w); }, Offer::choices, "auto|keep"},
  {0, "reserve", "CPUS", "cores nobody gets: a list such as 0,64, or first-of-l3",
   [](model::BindWishes& b, const Word& w) { set_reserve(b, w); }, Offer::choices, "first-of-l3|none"},
  {0, "lend", "", "with exclusive: cores of nodes without a GPU go to the nearest GPUs",
   [](model::BindWishes& b, const Word&) { b.lend = true; }},
  {0, "balanced", "", "with exclusive: every GPU gets as many cores as the poorest",
   [](model::BindWishes& b, const Word&) { b.balanced = true; }},
  {0, "strict", "", "exit 69 before the command starts where it would get less than this",
   [](model::BindWishes& b, const Word&) { b.strict = true; }},
  {0, "no-bind", "", "leave CPUs, memory and variables for NICs and threads as they are",
   [](model::BindWishes& b, const Word&) { b.off = true; }},
};

// Of a line of a verb that takes them. Throws Error(usage).
void check_binding(const Invocation& line);

}  // namespace thole::cli
