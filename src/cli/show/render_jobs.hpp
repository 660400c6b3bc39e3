// How jobs are shown: the table of `thole jobs`, its tasks, and the JSON that says the same.
#pragma once

#include <string>
#include <vector>

#include "app/queue/job_list.hpp"
#include "cli/show/terminal.hpp"
#include "model/json.hpp"

namespace thole::cli {

std::string render_jobs(const app::JobList& list, const Screen& screen);
model::Json jobs_to_json(const app::JobList& list);

// The tasks of jobs that have started, a line each.
std::string render_tasks(const std::vector<model::Task>& tasks, WallTime now, const Screen& screen);
model::Json to_json(const model::Task& task);

// How a task ended, in a few words: "exit 1", "SIGKILL", "time limit"; "" for success.
std::string how_it_ended(const model::Task& task);

// "12", or "12.3" where the job has several tasks.
std::string task_name(model::JobId job, model::TaskIndex task, std::uint64_t tasks);

Ink ink_of_state(std::string_view state);

}  // namespace thole::cli
