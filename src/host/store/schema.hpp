// The tables of the queue's file, by version: an older file is brought up to date, a newer one refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "host/store/sqlite.hpp"

namespace thole::host {

// What turns a file of version i into one of version i + 1; the first makes the tables of an empty file. A step that has been
// released is never changed: whatever comes is a further one.
using SchemaSteps = std::span<const char* const>;
SchemaSteps schema_steps();

// Throws Error(unavailable) unless this is a queue's file of at most the version these steps lead to. True: it needs no step.
bool schema_is_current(Database& db, SchemaSteps steps);

// Takes the missing steps, all in one transaction that is on disk afterwards. Whoever calls holds the turnstile.
void bring_up_to_date(Database& db, SchemaSteps steps);

// The bytes of a queue's file without jobs, for use with a log. Its first job has the number after `last_number`.
std::string new_queue(SchemaSteps steps, std::uint64_t last_number);

}  // namespace thole::host
