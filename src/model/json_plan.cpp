#include "model/json_plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/json_field.hpp"

namespace thole::model {

namespace {

constexpr std::uint64_t most = 4096;           // GPUs or ranks of one request

std::vector<std::size_t> numbers(const Field& field) {
  std::vector<std::size_t> all;
  field.each([&](const Field& number) { all.push_back(number.whole(most)); });
  return all;
}

CpuSet cpus(const Field& field) {
  if (auto set = CpuSet::parse(field.text())) return *std::move(set);
  field.fail("\"" + printable(field.text(), 60) + "\" is not a CPU list such as \"0-3,16-19\"");
}

void set_mode(BindOptions& options, const Field& field) {
  if (!parse_bind_mode(field.text(), options))
    field.fail("\"" + printable(field.text(), 60) + "\" is not one of " + bind_modes);
}

void set_reserve(BindOptions& options, const Field& field) {
  const auto reserve = parse_reserve(field.text());
  if (!reserve) field.fail("\"" + printable(field.text(), 60) + "\" is not \"first-of-l3\" or a CPU list such as \"0,64\"");
  options.reserve = *reserve;
}

constexpr Member<BindOptions> bind_keys[] = {
    {"mode", [](BindOptions&, const Field&) {}},  // read before the others, since their defaults depend on it
    {"smt", [](BindOptions& o, const Field& f) { o.smt = f.one_of(parse_smt, "all, one"); }},
    {"balanced",
     [](BindOptions& o, const Field& f) { (o.mode == BindMode::compat ? o.compat.balanced : o.balanced) = f.flag(); }},
    {"strict", [](BindOptions& o, const Field& f) { o.strict = f.flag(); }},
    {"reserve", set_reserve},
    {"lend", [](BindOptions& o, const Field& f) { o.lend = f.flag(); }},
    {"affinity",
     [](BindOptions& o, const Field& f) {
       o.compat.affinity = f.one_of(parse_affinity, "all, single, single_unique, unique_interleaved, unique_contiguous");
     }},
    {"scope", [](BindOptions& o, const Field& f) { o.compat.scope = f.one_of(parse_scope, "node, socket"); }},
    {"min_cores", [](BindOptions& o, const Field& f) { o.compat.min_cores = f.whole(Field::most_int); }},
    {"max_cores", [](BindOptions& o, const Field& f) { o.compat.max_cores = f.whole(Field::most_int); }},
};

// A mode that is named means just that; without one it is what thole does by default for one command, or for several ranks.
void read_bind(PlanRequest& request, const Json& json, const Field& field) {
  const bool several = request.ranks.value_or(1) > 1;
  if (!field.null()) field.must_be_object();
  const Field mode = field.at("mode"), affinity = field.at("affinity");
  if (mode.null() && !affinity.null()) request.bind.mode = BindMode::compat;   // nothing else has one
  else if (mode.null()) request.bind = several ? BindOptions::for_ranks() : BindOptions::for_command();
  else set_mode(request.bind, mode);
  if (!field.null()) read_object(request.bind, json, field, bind_keys);
}

// What a plan does not need is filled in, so that the one strict reader can be used.
Machine own_machine(const Json& given) {
  const auto lacks = [](const Json& gpu) {
    return gpu.is_object() && (!gpu.contains("vendor") || (!gpu.contains("uuid") && !gpu.contains("pci")));
  };
  const auto gpus = given.find("gpus");
  const bool list = gpus != given.end() && gpus->is_array();
  if (given.contains("schema") && (!list || std::none_of(gpus->begin(), gpus->end(), lacks)))
    return machine_from_json(given, "machine");
  Json filled = given;
  if (!filled.contains("schema")) filled["schema"] = machine_schema;
  std::size_t number = 0;
  if (list)
    for (Json& gpu : filled["gpus"]) {
      if (gpu.is_object() && !gpu.contains("vendor")) gpu["vendor"] = to_string(Gpu{}.vendor);
      if (gpu.is_object() && !gpu.contains("uuid") && !gpu.contains("pci")) gpu["uuid"] = fmt::format("GPU-{}", number);
      ++number;
    }
  return machine_from_json(filled, "machine");
}

constexpr Member<PlanRequest> request_keys[] = {
    {"machine", [](PlanRequest& r, const Field& f) { if (f.is_text()) r.machine = f.text(); }},
    {"allowed", [](PlanRequest& r, const Field& f) { r.allowed = cpus(f); }},
    {"busy", [](PlanRequest& r, const Field& f) { r.busy = numbers(f); }},
    {"gpus", [](PlanRequest& r, const Field& f) { r.gpus = f.whole(most); }},
    {"shape", [](PlanRequest& r, const Field& f) { r.shape = f.one_of(parse_shape, "collective, pairwise, independent"); }},
    {"ranks", [](PlanRequest& r, const Field& f) { r.ranks = f.whole(most); }},
    {"on", [](PlanRequest& r, const Field& f) { r.on = numbers(f); }},
    {"must", [](PlanRequest& r, const Field& f) { r.must = numbers(f); }},
    {"order", [](PlanRequest& r, const Field& f) { r.order = numbers(f); }},
    {"bind", [](PlanRequest&, const Field&) {}},   // read last, since its defaults depend on the ranks
};

Json rank_json(const RankPlan& rank) {
  return {{"rank", rank.rank},
          {"gpus", rank.gpus},
          {"cpus", rank.bound ? Json(rank.cpus.to_string()) : Json(nullptr)},
          {"degraded", rank.degraded},
          {"why", rank.why}};
}

}  // namespace

PlanRequest plan_request_from_json(const Json& json) {
  PlanRequest request;
  const Field root(json, "request");
  read_object(request, json, root, request_keys);
  const auto machine = json.find("machine");
  if (machine != json.end() && machine->is_object()) request.own = own_machine(*machine);
  else if (machine != json.end() && !machine->is_null() && !machine->is_string())
    root.at("machine").fail("expected a path, a name or an object {…}");
  read_bind(request, json.value("bind", Json()), root.at("bind"));
  return request;
}

Json to_json(const PlanAnswer& answer) {
  Json ranks = Json::array();
  for (const RankPlan& rank : answer.ranks) ranks.push_back(rank_json(rank));
  Json json{{"gpus", answer.gpus}, {"score", answer.score}, {"ranks", std::move(ranks)}, {"explain", answer.explain}};
  if (!answer.exact) json["exact"] = false;
  return json;
}

Json to_json(const PlanRefusal& refusal) {
  Json error{{"code", refusal.code}, {"message", refusal.message}};
  if (refusal.rank) error["rank"] = *refusal.rank;
  return {{"error", std::move(error)}};
}

}  // namespace thole::model
