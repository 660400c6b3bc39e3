// Who has what: the machine, its claims, its queue and what is free, brought together as one value for `status` and `doctor`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/observer.hpp"
#include "model/claim.hpp"
#include "model/machine.hpp"
#include "model/request.hpp"
#include "model/unit.hpp"
#include "plan/place/select.hpp"
#include "port/claim_store.hpp"
#include "port/clock.hpp"

namespace thole::app {

// One word for a unit. Sick comes before claimed: its owner should know too.
enum class State { idle, claimed, shared, overdue, foreign, sick, unknown };
const char* to_string(State state);  // "idle" …

// Xids that tell of a program's own mistake or end; the GPU is none the worse (NVIDIA's Xid catalogue).
bool is_programs_fault(int xid);

struct UnitOverview {
  model::Unit unit;
  State state = State::unknown;
  std::string why;  // a sentence where the state needs one
  std::vector<model::Holding> holdings;
  std::vector<model::GpuProcess> strangers;  // processes that none of the holders accounts for
  bool mine = false;                         // one of the holders is me
  bool visible = true;                       // within the outer allotment
};

struct WaitingOverview {
  model::Waiting waiting;
  std::optional<WallTime> promise;  // the start that can be promised
};

struct Overview {
  model::Snapshot snapshot;
  std::vector<UnitOverview> units;     // in machine order
  std::vector<model::Holding> unseen;  // claims of units that this reading did not show
  std::vector<WaitingOverview> queue;  // in order of arrival
  plan::Outer outer;                   // `visible` is parallel to units
  std::string claims_problem;          // why claims and queue could not be read as they should; "" = they were
  uid_t uid = 0;                       // who looks
  WallTime now{};
};

struct OverviewSources {
  const Observer& observer;           // has looked already
  port::ClaimStore* store = nullptr;  // null: there is none, or it could not be opened
  std::string claims_problem;         // why it could not
  const plan::Environment& environment;
  const model::FreePolicy& policy;
  const model::FreePolicy& common_policy;   // as Site's
  const port::Clock& clock;
  uid_t uid = 0;
};

// Of the observer's last look. Claims and the queue are read whatever the driver did; throws only for bugs.
Overview look_over(const OverviewSources& sources);

// What words name, each once.
struct NamedGpus {
  std::vector<std::size_t> gpus;    // indices into the machine, in the order in which they were named
  std::vector<std::size_t> units;   // indices into the overview's units: the one instance that was named, or all of the GPU
};

// By index, UUID or unique prefix, PCI address; an instance by its label or UUID. Throws Error(usage) with the nearest names.
NamedGpus gpus_named(const std::vector<std::string>& words, const Overview& overview);

}  // namespace thole::app
