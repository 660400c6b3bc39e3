// `status --json`: the machine with its claims and its queue.
#include <algorithm>
#include <set>

#include "model/json.hpp"
#include "model/json_null.hpp"
#include "model/unit.hpp"

namespace thole::model {

namespace {

Json time_or_null(WallTime when) { return when == WallTime{} ? Json(nullptr) : Json(format_iso(when)); }

// What a waiter waits for: claims that hold a unit it could use, and earlier tickets that compete for one.
Json waits_for(std::size_t position, const std::vector<Holding>& holdings, const std::vector<Waiting>& queue) {
  std::set<std::string> wanted(queue[position].eligible.begin(), queue[position].eligible.end());
  Json claims = Json::array(), tickets = Json::array();
  for (const Holding& holding : holdings) {
    bool known = std::find(claims.begin(), claims.end(), holding.id) != claims.end();
    if (wanted.contains(holding.key) && !known && !holding.id.empty()) claims.push_back(holding.id);
  }
  for (std::size_t i = 0; i < position; ++i) {
    const std::vector<std::string>& other = queue[i].eligible;
    if (std::any_of(other.begin(), other.end(), [&](const std::string& key) { return wanted.contains(key); }))
      tickets.push_back(queue[i].ticket);
  }
  return {{"claims", std::move(claims)}, {"tickets", std::move(tickets)}};
}

}  // namespace

Json to_json(const Holding& holding) {
  return {{"key", holding.key},
          {"id", or_null(holding.id)},
          {"uid", holding.uid == static_cast<uid_t>(-1) ? Json(nullptr) : Json(holding.uid)},
          {"user", or_null(holding.user)},
          {"pid", holding.pid > 0 ? Json(holding.pid) : Json(nullptr)},
          {"held", holding.held},
          {"verified", holding.verified},
          {"since", time_or_null(holding.since)},
          {"until", holding.until ? time_or_null(*holding.until) : Json(nullptr)},
          {"overdue", holding.overdue},
          {"shared", holding.shared},
          {"share_with_any", holding.share_with_any},
          {"memory_mib", or_null(holding.memory_mib)},
          {"command", or_null(holding.command)}};
}

Json to_json(const Waiting& waiting) {
  Json time = or_null(waiting.time);
  return {{"ticket", waiting.ticket},
          {"uid", waiting.uid == static_cast<uid_t>(-1) ? Json(nullptr) : Json(waiting.uid)},
          {"user", or_null(waiting.user)},
          {"pid", waiting.pid > 0 ? Json(waiting.pid) : Json(nullptr)},
          {"mine", waiting.mine},
          {"wants",
           {{"gpus", waiting.count},
            {"any_of", waiting.eligible},
            {"shared", waiting.shared},
            {"memory_mib", waiting.shared || waiting.memory_mib != 0 ? Json(waiting.memory_mib) : Json(nullptr)}}},
          {"since", time_or_null(waiting.since)},
          {"time_s", std::move(time)},
          {"stopped", waiting.stopped}};
}

Json to_json(const Observation& observation) {
  Json age = observation.age ? Json(static_cast<double>(observation.age->count()) / 1000) : Json(nullptr);
  return {{"backend", observation.backend},
          {"source", or_null(observation.source)},
          {"problem", or_null(observation.problem)},
          {"answered", observation.answered},
          {"pids_foreign", observation.pids_foreign},
          {"age_s", std::move(age)}};
}

Json status_json(const Snapshot& snapshot, const std::vector<Holding>& holdings, const std::vector<Waiting>& queue) {
  Json json = to_json(snapshot.machine);
  json["taken_at"] = time_or_null(snapshot.taken_at);
  json["simulated"] = snapshot.simulated;
  json["observations"] = Json::array();
  for (const Observation& observation : snapshot.observations) json["observations"].push_back(to_json(observation));

  const std::vector<Unit> all = units(snapshot.machine);
  json["claims"] = Json::array();
  for (const Holding& holding : holdings) {
    const auto unit = index_of(holding.key, all);
    Json claim = {{"gpu", unit ? Json(all[*unit].gpu) : Json(nullptr)},
                  {"unit", unit ? Json(all[*unit].label) : Json(nullptr)}};
    claim.update(to_json(holding));
    json["claims"].push_back(std::move(claim));
  }
  json["queue"] = Json::array();
  for (std::size_t i = 0; i < queue.size(); ++i) {
    Json ticket = to_json(queue[i]);
    ticket["waits_for"] = waits_for(i, holdings, queue);
    json["queue"].push_back(std::move(ticket));
  }
  return json;
}

}  // namespace thole::model
