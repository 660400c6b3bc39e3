// What the record of a dead lane says about a task that the store still calls running (the rules: app/queue/runner.hpp).
#pragma once

#include <optional>
#include <variant>

#include "model/boot.hpp"
#include "model/job.hpp"
#include "model/lane_record.hpp"
#include "plan/job/fate.hpp"
#include "port/job_store.hpp"

namespace thole::app {

struct NeverBegan {};
struct Ended {
  plan::TaskEnding ending;
  WallTime at{};
  std::optional<std::uint64_t> peak_memory_kib, peak_gpu_mib;
};
struct Unknown {                                 // it began, or that cannot be told, and nobody saw its end
  model::Boot boot = model::Boot::this_one;      // under which it began; of another one nothing lives
  std::optional<Ended> command{};                // but that of its command, which may have left something
};
struct Untold {};                                // whether it began: perhaps this is another boot
using Remains = std::variant<NeverBegan, Ended, Unknown, Untold>;

// `record`: null where it is missing. `boot`: under which it was written.
// `store`: JobWork::origin() of the task's; a lane of another one says nothing of it. 0: not asked.
// `is_other`: the record may be of another moment than the store.
Remains remains_of(const model::Task& task, const model::LaneRecord* record, model::Boot boot, std::uint32_t store = 0,
                   bool is_other = false);

// Where a lane has noted this run of the task; null where it has not.
const model::LaneBay* bay_of(const model::Task& task, const model::LaneRecord* record);

// The end that goes into the store.
port::TaskEnd end_of(const model::Task& task, const Remains& remains, const model::Retry& retry, WallTime now);

}  // namespace thole::app
