#include "app/map/log_file.hpp"

#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/stream.hpp"

namespace thole::app {

namespace {

std::string read(const std::string& path, std::size_t most) {
  std::optional<std::string> text = read_file(path, most);
  if (!text && !says_absent(errno))              // what it would have left out is not begun again
    throw Error(ErrorCode::unavailable, "cannot read the log of tasks").about(path).because(errno);
  return std::move(text).value_or("");
}

// Its beginning first: /dev/full has no end.
std::string read_whole(const std::string& path, plan::Resume resume) {
  if (path.empty() || resume == plan::Resume::none) return "";
  const std::string_view head = plan::job_log_head;
  const std::string beginning = read(path, head.size());
  if (!head.starts_with(std::string_view(beginning).substr(0, beginning.find('\n'))))   // torn by a crash it is a beginning
    throw Error(ErrorCode::usage, "this is no log of tasks").about(path).hint("name another file for --joblog");
  return read(path, std::numeric_limits<std::size_t>::max());
}

}  // namespace

std::vector<bool> JobLogFile::read_done(const std::string& path, plan::Resume resume) {
  return plan::tasks_done(read_whole(path, resume), resume);
}

JobLogFile::JobLogFile(const std::string& path, plan::Resume resume, Put put) : path_(path), put_(std::move(put)) {
  if (path.empty()) return;
  const std::string before = read_whole(path, resume);
  done_ = plan::tasks_done(before, resume);
  file_ = open_to_append(path, resume == plan::Resume::none);
  if (!file_) throw Error(ErrorCode::unavailable, "cannot write the log of tasks").about(path).because(errno);
  if (before.empty()) text_ = plan::job_log_head;
  else if (before.back() != '\n') text_ = "\n";  // torn by a crash
  if (!may_wait(file_.get())) put_ = append_whole;   // a part could be taken for a task that is done
  if (!text_.empty()) write();
}

void JobLogFile::write() {
  if (!put_(file_.get(), text_)) must_be_writable(errno);
}

void JobLogFile::must_be_writable(int why) const {
  if (why != 0) throw Error(ErrorCode::unavailable, "cannot write the log of tasks").about(path_).because(why);
}

void JobLogFile::add(const plan::JobLogLine& line) {
  if (!file_) return;
  text_.clear();
  plan::write_job_log(text_, line);
  write();
}

}  // namespace thole::app
