// A queue's directory that was copied (a backup, an experiment): the copy has the same secret, so that its tasks have the same
// marks, and what the copied records of lanes say lives is the original's.
//
// How this works. What lives of a task says in which directory its queue is (THOLE_TASK). A lane notes that directory and which
// file its record is. So a process with the same mark that names another directory than the lane did is another queue's; and
// where the record is a copy, the process is the original's as long as there is, in the directory that it names (as itself sees
// it), the file that the record was. Where that is gone the queue was moved, and what lives is ours; where a file of that name
// is ours it has another path here. A record of an earlier build tells neither: any other queue there counts as the original.
#pragma once

#include <sys/types.h>

#include <string>

#include "port/lanes.hpp"

namespace thole::host {

struct Bearer {
  enum Whose { ours, anothers, of_original };
  Whose whose = ours;
  std::string directory{};                       // that it names; empty: none
};

// Of a process that is of this run by its mark, or by what the lane has noted of its command. `directory`: of our queue.
Bearer whose_is(const port::RunTrace& run, const std::string& directory, pid_t pid);

}  // namespace thole::host
