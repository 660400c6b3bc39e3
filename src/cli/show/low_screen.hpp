// The queue on a screen that may be too low for all of it: what runs stays, what waits goes before it, what has ended first.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/queue/job_list.hpp"
#include "base/time.hpp"
#include "cli/show/terminal.hpp"
#include "model/job.hpp"

namespace thole::cli {

// render_jobs() and render_tasks() in at most so many lines (0: as many as there are), with a last line that says how many were
// left out. Of those that ended the first are left out first, of those that wait the last. More lines only where more run.
std::string jobs_in_lines(app::JobList list, const Screen& screen, std::size_t most);
std::string tasks_in_lines(std::vector<model::Task> tasks, WallTime now, const Screen& screen, std::size_t most);

}  // namespace thole::cli
