// Tells whoever asked for it (--notify) that a job has ended.
#pragma once

#include <string>
#include <string_view>

#include "app/queue/ports.hpp"

namespace thole::app {

// Runs the job's command with THOLE_JOB, THOLE_JOB_NAME, THOLE_JOB_STATE ("done", "failed", "cancelled") and the counts of its
// tasks. At most once: whoever is killed between the end of a job and this has told nobody.
// That it failed stands in the runner's log.
void notify(const QueuePorts& ports, model::JobId job);

std::string notify_failed_text(model::JobId job);   // before the status
std::string notify_failure_in(std::string_view log, model::JobId job);   // with which status it failed; "": nothing says so

}  // namespace thole::app
