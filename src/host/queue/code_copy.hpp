// A copy of the code a job is to run, made when it is submitted: what is edited afterwards does not reach it.
//
// How this works. Within a git work tree the files that git tracks, or would track (untracked and not ignored), are copied with
// the changes they have; so data and results, which are ignored, stay behind. Elsewhere it is the whole directory, up to a
// limit. Files are cloned where the file system can. The copy is made under a name of its own and belongs to the job that uses
// it, which a link beside the job's logs says. Its maker holds its lock until that link is there. So a copy with neither was
// left by a maker who was killed: either before the job was stored, and nobody will use it, or just after. The store knows
// which (app/queue/abandoned_code.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "model/job.hpp"

namespace thole::host {

struct CodeCopy {
  std::string root;                              // of the copy
  std::string directory;                         // in it, where `from` was
  std::uint64_t files = 0, bytes = 0;
  bool by_git = false;
  Fd lock;                                       // of its maker, until it is given to a job
};

inline constexpr std::uint64_t most_code_bytes = std::uint64_t{1} << 30;

// Of `from`, below `snapshots`, which is made where there is none. Directories of `leave_out` are not copied: thole's own, with
// the copies of other jobs in them. Throws Error(usage) where that is more than `most_bytes`,
// and Error(unavailable) where it cannot be read or written; nothing is left then.
CodeCopy copy_code(const std::string& from, const std::string& snapshots, const std::vector<std::string>& leave_out,
                   std::uint64_t most_bytes = most_code_bytes);

void remove_code(const std::string& root);

// The copy is `job`'s from now on: it goes with the job's logs (remove_logs).
void give_code(const std::string& root, const std::string& logs, model::JobId job);

// Copies whose makers live no more and which no job is known to have. Nobody else settles what becomes of one while its lock
// lives.
struct AbandonedCode {
  std::string root;
  Fd lock;
};
std::vector<AbandonedCode> abandoned_code(const std::string& snapshots, const std::string& logs);

}  // namespace thole::host
