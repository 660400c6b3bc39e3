// A queue's directory that was copied (a backup, an experiment): the copy has the same secret, so that the same run of a task
// has the same mark in both, and what the copied records of lanes say lives is the original's.
//
// How this works. A lane draws a number, which its record has and its tasks show: what shows it is this lane's, wherever its
// queue lies by now. Of a record that is a copy, which it is when its file is another than it says, whatever lives of a run is
// the original's, and not ours to signal. A lane of an earlier build has no number, and none is known where the record is gone:
// then what shows the mark of the run counts as ours only where the directory that it names is ours, as itself sees it.
#pragma once

#include <string>

#include "base/fd.hpp"
#include "host/queue/task_processes.hpp"
#include "model/lane_record.hpp"
#include "port/lanes.hpp"

namespace thole::host {

// `file`: in which it lies.
bool is_copy(const model::LaneRecord& record, const Fd& file);

// Whether it is not as its lane has written it last: somebody has put it into its place from a backup (or has changed the
// file's mode or owner, or linked it, since it was written last, which looks the same), or its disk was mounted anew.
bool is_of_another_moment(const model::LaneRecord& record, const Fd& file);

// Whether a process is of this run, which its mark says, or what its lane has noted of its command. `directory`: of our queue.
// Throws port::Unseen where it is the original's, or may be.
bool is_of_this_queue(const port::RunTrace& run, const std::string& directory, const TaskProcess& process);

}  // namespace thole::host
