#include "app/show/overview_json.hpp"

#include "model/json_null.hpp"

namespace thole::app {

namespace {

using model::Json;

Json unit_to_json(const UnitOverview& row, const model::Machine& machine) {
  Json pids = Json::array(), claims = Json::array();
  for (const model::GpuProcess& process : row.strangers)
    if (process.pid > 0) pids.push_back(process.pid);
  for (const model::Holding& holding : row.holdings) claims.push_back(model::or_null(holding.id));
  const auto memory = row.unit.memory_mib_of(machine);
  return {{"unit", row.unit.label},
          {"key", row.unit.key},
          {"gpu", row.unit.gpu},
          {"model", model::or_null(row.unit.model_of(machine))},
          {"memory_mib", model::or_null(memory)},
          {"state", to_string(row.state)},
          {"why", model::or_null(row.why)},
          {"visible", row.visible},
          {"mine", row.mine},
          {"claims", std::move(claims)},
          {"unclaimed_pids", std::move(pids)}};
}

}  // namespace

Json status_to_json(const Overview& overview) {
  std::vector<model::Holding> holdings;
  std::vector<model::Waiting> waiting;
  for (const UnitOverview& row : overview.units) holdings.insert(holdings.end(), row.holdings.begin(), row.holdings.end());
  holdings.insert(holdings.end(), overview.unseen.begin(), overview.unseen.end());
  for (const WaitingOverview& entry : overview.queue) waiting.push_back(entry.waiting);
  Json json = model::status_json(overview.snapshot, holdings, waiting);
  for (std::size_t i = 0; i < overview.queue.size(); ++i) {
    const auto& promise = overview.queue[i].promise;
    json["queue"][i]["starts_by"] = model::or_null(promise);
  }
  json["units"] = Json::array();
  for (const UnitOverview& row : overview.units) json["units"].push_back(unit_to_json(row, overview.snapshot.machine));
  json["narrowed_by"] = model::or_null(overview.outer.named_by);
  json["claims_problem"] = model::or_null(overview.claims_problem);
  return json;
}

Json list_to_json(const Overview& overview) {
  const model::Machine& machine = overview.snapshot.machine;
  Json json = {{"schema", "thole/list/1"}, {"gpus", Json::array()}};
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    Json instances = Json::array();
    for (const UnitOverview& row : overview.units)
      if (row.unit.gpu == g && row.unit.instance)
        instances.push_back({{"unit", row.unit.label},
                             {"uuid", model::or_null(machine.gpus[g].mig[*row.unit.instance].uuid)},
                             {"model", model::or_null(row.unit.model_of(machine))}});
    json["gpus"].push_back({{"index", g},
                            {"uuid", model::or_null(machine.gpus[g].uuid)},
                            {"model", model::or_null(machine.gpus[g].model)},
                            {"instances", std::move(instances)}});
  }
  return json;
}

Json gpus_to_json(const Overview& overview, const NamedGpus& named) {
  Json json = {{"schema", "thole/gpus/1"}, {"gpus", Json::array()}};
  for (std::size_t g : named.gpus) {
    Json entry = {{"index", g}};
    entry.update(model::to_json(overview.snapshot.machine.gpus[g]));
    entry["units"] = Json::array();
    entry["claims"] = Json::array();
    for (std::size_t u : named.units) {
      const UnitOverview& row = overview.units[u];
      if (row.unit.gpu != g) continue;
      entry["units"].push_back(unit_to_json(row, overview.snapshot.machine));
      for (const model::Holding& holding : row.holdings) {
        Json claim = {{"unit", row.unit.label}};
        claim.update(model::to_json(holding));
        entry["claims"].push_back(std::move(claim));
      }
    }
    json["gpus"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace thole::app
