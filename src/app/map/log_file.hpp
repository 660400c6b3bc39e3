// The file that `map --joblog` keeps: a line for each task that has ended, there when the next one starts.
#pragma once

#include <string>
#include <vector>

#include "base/fd.hpp"
#include "plan/job/job_log.hpp"

namespace thole::app {

class JobLogFile {
 public:
  JobLogFile() = default;                        // none

  // With a resume the lines that are there stay and say which tasks are done; else the file starts anew.
  // Throws Error(unavailable).
  JobLogFile(const std::string& path, plan::Resume resume);

  // What done() would be, for looking only.
  static std::vector<bool> read_done(const std::string& path, plan::Resume resume);

  const std::vector<bool>& done() const { return done_; }
  void add(const plan::JobLogLine& line);        // throws Error(unavailable) when it cannot be written

 private:
  std::string path_, text_;
  Fd file_;
  std::vector<bool> done_;
};

}  // namespace thole::app
