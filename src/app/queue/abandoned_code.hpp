// What becomes of copies of code (`submit --snapshot`) whose maker was killed before a job was known to have them.
#pragma once

#include "port/job_reader.hpp"
#include "port/queue_door.hpp"

namespace thole::app {

// Those of jobs that were stored are given to them, the others removed. Called where there is time: before another copy is
// made, and when the runner leaves.
void settle_code(port::JobReader& jobs, port::QueueFolder& folder);

}  // namespace thole::app
