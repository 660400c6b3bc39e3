// Tells whoever asked for it (--notify) that a job has ended.
#pragma once

#include "app/queue_ports.hpp"

namespace thole::app {

// Runs the job's command with THOLE_JOB, THOLE_JOB_NAME, THOLE_JOB_STATE ("done", "failed", "cancelled") and the counts of its
// tasks. At most once: whoever is killed between the end of a job and this has told nobody.
void notify(const QueuePorts& ports, model::JobId job);

}  // namespace thole::app
