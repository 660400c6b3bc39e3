// A lane: the process that claims GPUs for one job and runs tasks of it, one after the other or several at once.
//
// How this works. It enters the machine's claim queue like everybody. With the claim it takes the first task of the best job of
// its request class, then the next of the same job, and so on; the end of one task and the taking of the next are one
// transaction of the store. What happens in between stands in its record (model/lane_record.hpp), so that nothing is lost with
// it. After each task it looks whether somebody else waits in the claim queue for GPUs it has, or the runner wants it to give
// way: then it ends, and what is left of the job stands in line again, behind them. So it does when it is told to end
// (SIGTERM), as everything is when the machine goes down; then it starts no runner either.
#pragma once

#include "app/queue/ports.hpp"

namespace thole::app {

// no_claim: its GPUs cannot be had now; cannot_start: no process can; no_store: nothing can be written to the queue;
// told_to_end: by a signal. `say` was told why.
enum class LaneEnd { worked, nothing_to_do, no_claim, cannot_start, no_store, told_to_end };

// In the lane's process. `first`: the job it was started for, as it was then, whose request it makes.
LaneEnd run_lane(const QueuePorts& ports, port::LaneSeat& seat, const model::Job& first);

}  // namespace thole::app
