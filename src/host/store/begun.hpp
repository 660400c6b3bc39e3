// How far the tasks of a job may have begun, on the disk before any of them does.
//
// How this works. A take is stored without a sync, so a loss of power undoes the last of them, and so does a disk that is taken
// down without a sync and mounted again; what ran would be found queued and run again. So a task may begin only below its job's
// mark, and a mark is on the disk before anybody sees it. After that whatever stands below the mark and is not known to have
// ended may have begun, and is lost.
//
// One sync serves as many tasks as the job starts in the time of 32 syncs, of all its lanes together: a short task does not pay
// for it, and of long ones the mark names just the next. A task that has a row (it ran before, or was held) is taken with a
// sync of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "host/store/job_row.hpp"

namespace thole::host {

// May this task of the job begin with what is on the disk?
bool may_begin(Database& db, model::JobId job, model::TaskIndex index, WallTime now, Millis sync_time);

// Moves the mark so that this one may, and those that are likely to follow soon. For a change that is synced.
void move_mark(Database& db, const JobRow& row, model::TaskIndex index, WallTime now, Millis sync_time);

void forget_mark(Database& db, model::JobId job);

// The jobs with a mark beyond what has begun, but for these.
std::vector<model::JobId> marked_further(Database& db, std::span<const model::JobId> but);

// Where the marks are of another boot or mounting of the disk, or may be: what may have begun then and has no row runs in a
// lane that there is not. Where it cannot be told, `reason` says of which boot the mark was.
void count_as_begun(Database& db, Ledger& ledger, std::uint64_t lane, std::optional<std::string_view> reason);

}  // namespace thole::host
