// A job's spec as JSON: how the store keeps it and how `thole jobs --json` shows it. Fields that say nothing (an empty list, a
// default) are left out. The environment is never part of it.
#pragma once

#include "model/job.hpp"
#include "model/json.hpp"

namespace thole::model {

Json to_json(const JobSpec& spec);
Json to_json(const Request& request);            // what request_from_json reads; the time and the patience are no part of it
Json to_json(const BindOptions& options);

// The same packed for the store: shorter, and byte by byte what was typed, also where that is no UTF-8 and so no JSON.
// Reading is strict about types and tolerant of unknown fields: a newer thole may have written it that changed nothing else.
std::string pack(const JobSpec& spec);
JobSpec unpack_job_spec(std::string_view bytes, const std::string& what);

// What jobs have in common that compete for the same GPUs in the same way.
std::string request_class(const JobSpec& spec);

}  // namespace thole::model
