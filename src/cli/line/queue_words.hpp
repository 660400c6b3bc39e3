// Readings of values that only the queue's verbs take; each throws Error(usage) that quotes the value.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "cli/line/table.hpp"
#include "model/job.hpp"

namespace thole::cli {

std::string job_name_of(const Word& word);       // anything that cannot be taken for a number, "@" or a list
int priority_of(const Word& word);               // -1000 … 1000
std::string variable_of(const Word& word);       // "NAME=VALUE"
std::optional<Seconds> limit_of(const Word& word);   // a time with its unit, or "none"
void add_words(std::vector<std::string>& words, const Word& word);
void add_tags(std::vector<std::string>& tags, const Word& word);   // each such as could be a name, which it is used like
std::set<model::TaskState> states_of(const Word& word);

// "3", "fail", "2,exit:75,signal:KILL,oom,lost"
model::Retry retry_of(const Word& word, Seconds pause);

// "22:00" (the next time the clock shows it), "2026-11-23", "2026-11-23 08:00", "2026-11-23T08:00:00Z", "2h" (from now), "now".
WallTime begin_of(const Word& word, WallTime now);

}  // namespace thole::cli
