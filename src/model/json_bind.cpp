#include "model/json_bind.hpp"

#include "model/json_field.hpp"
#include "model/json_null.hpp"

namespace thole::model {

namespace {

constexpr Member<BindWishes> members[] = {
    {"mode",
     [](BindWishes& w, const Field& f) {
       if (!w.set_mode(f.text())) f.fail("\"" + printable(f.text(), 60) + "\" is not one of " + bind_modes);
     }},
    {"smt", [](BindWishes& w, const Field& f) { w.smt = f.one_of(parse_smt, "all, one"); }},
    {"balanced", [](BindWishes& w, const Field& f) { w.balanced = f.flag(); }},
    {"lend", [](BindWishes& w, const Field& f) { w.lend = f.flag(); }},
    {"strict", [](BindWishes& w, const Field& f) { w.strict = f.flag(); }},
    {"reserve",
     [](BindWishes& w, const Field& f) { w.reserve = f.one_of(parse_reserve, "none, first-of-l3, a CPU list such as 0,64"); }},
    {"mem",
     [](BindWishes& w, const Field& f) {
       if (!w.set_memory(f.text()))
         f.fail("\"" + printable(f.text(), 60) + "\" is not one of first-touch, preferred, bind, interleave, bind:NODES");
     }},
    {"nic", [](BindWishes& w, const Field& f) { w.nic = f.one_of(parse_nic_mode, "none, near, all"); }},
    {"threads",
     [](BindWishes& w, const Field& f) { w.threads = f.one_of(parse_threads, "keep, auto, a number of 1 or more"); }},
};

constexpr std::uint64_t most_ranks = 65'536;

unsigned number(const Field& field) { return static_cast<unsigned>(field.whole(most_ranks)); }

constexpr Member<RankWishes> rank_members[] = {
    {"local_rank", [](RankWishes& w, const Field& f) { w.local_rank = number(f); }},
    {"ranks", [](RankWishes& w, const Field& f) { w.ranks = number(f); }},
    {"gpus_per_rank", [](RankWishes& w, const Field& f) { w.gpus_per_rank = number(f); }},
    {"on", [](RankWishes& w, const Field& f) { f.each([&](const Field& gpu) { w.on.push_back(gpu.text()); }); }},
    {"bind", [](RankWishes&, const Field&) {}},    // read by itself
};

}  // namespace

BindWishes bind_wishes_from_json(const Json& json) {
  BindWishes wishes;
  if (!json.is_null()) read_object(wishes, json, Field(json, "bind"), members);
  return wishes;
}

RankWishes rank_wishes_from_json(const Json& json) {
  RankWishes wishes;
  read_object(wishes, json, Field(json, "request"), rank_members);
  if (const auto bind = json.find("bind"); bind != json.end()) wishes.bind = bind_wishes_from_json(*bind);
  return wishes;
}

Json to_json(const Binding& binding) {
  return {{"cpus", or_null(binding.cpus)},
          {"memory", binding.memory ? Json(to_string(*binding.memory)) : Json(nullptr)},
          {"memory_nodes", binding.memory_nodes}};
}

}  // namespace thole::model
