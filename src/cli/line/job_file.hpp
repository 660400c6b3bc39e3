// A job file: TOML whose keys are the options of `thole submit`,
// so that whatever can be said on the line can be said in a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thole::cli {

struct FileJob {
  std::string about;                             // "jobs.toml:12 (train)"
  std::vector<std::string> options;              // words of `thole submit` before its command …
  std::vector<std::string> command;              // … and the command
};

// Whether an option of `thole submit` is the job's own; what is about the call alone (--dry-run, --json) stands on its line.
bool is_of_job(std::string_view option);

// The [[job]] tables in order; keys outside of them hold for all. Throws Error(usage) with file and line.
std::vector<FileJob> read_job_file(std::string_view text, const std::string& path);

}  // namespace thole::cli
