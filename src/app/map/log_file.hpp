// The file that `map --joblog` keeps: a line for each task that has ended, there when the next one starts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "plan/job/job_log.hpp"

namespace thole::app {

class JobLogFile {
 public:
  JobLogFile() = default;                        // none

  // With a resume the lines that are there stay and say which tasks are done; else the file starts anew.
  // Throws Error(unavailable). Into what may have to wait for its reader (a pipe, a terminal) lines go by `put`.
  using Put = std::function<bool(int fd, std::string_view bytes)>;   // false with errno
  JobLogFile(const std::string& path, plan::Resume resume, Put put);

  // What done() would be, for looking only.
  static std::vector<bool> read_done(const std::string& path, plan::Resume resume);

  const std::vector<bool>& done() const { return done_; }
  void add(const plan::JobLogLine& line);        // throws Error(unavailable) when it cannot be written
  void must_be_writable(int why) const;          // the same for what was put: errno, or 0
  int fd() const { return file_.get(); }

 private:
  void write();

  std::string path_, text_;
  Put put_;
  Fd file_;
  std::vector<bool> done_;
};

}  // namespace thole::app
