// A copy of the code a job is to run, made when it is submitted: what is edited afterwards does not reach it.
//
// How this works. Within a git work tree the files that git tracks, or would track (untracked and not ignored), are copied with
// the changes they have; so data and results, which are ignored, stay behind. Elsewhere it is the whole directory, up to a
// limit. Files are cloned where the file system can. The copy is made under a name of its own and belongs to the job that uses
// it. While it is made it is called part.… and locked; one that nobody has locked was left by somebody who was killed, and the
// next to come removes it.
#pragma once

#include <cstdint>
#include <string>

#include "model/job.hpp"

namespace thole::host {

struct CodeCopy {
  std::string root;                              // of the copy
  std::string directory;                         // in it, where `from` was
  std::uint64_t files = 0, bytes = 0;
  bool by_git = false;
};

inline constexpr std::uint64_t most_code_bytes = std::uint64_t{1} << 30;

// Of `from`, below `snapshots`, which is made where there is none. Throws Error(usage) where that is more than `most_bytes`,
// and Error(unavailable) where it cannot be read or written; nothing is left then.
CodeCopy copy_code(const std::string& from, const std::string& snapshots, std::uint64_t most_bytes = most_code_bytes);

void remove_code(const std::string& root);

// The copy is `job`'s from now on: it goes with the job's logs (remove_logs).
void give_code(const CodeCopy& copy, const std::string& logs, model::JobId job);

}  // namespace thole::host
