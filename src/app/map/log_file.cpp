#include "app/map/log_file.hpp"

#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/named_file.hpp"
#include "base/stream.hpp"

namespace thole::app {

namespace {

constexpr const char* not_written = "cannot write the log of tasks";

std::string read(const NamedFile& log, std::size_t most) {
  const std::string way = log.way();
  if (way.empty()) return "";
  std::optional<std::string> text = read_file(way, most);
  if (!text)                                     // what it would have left out is not begun again
    throw Error(ErrorCode::unavailable, "cannot read the log of tasks").about(log.name).because(errno);
  return *std::move(text);
}

// Its beginning first: /dev/full has no end.
std::string read_whole(const NamedFile& log, plan::Resume resume) {
  if (resume == plan::Resume::none) return "";
  const std::string_view head = plan::job_log_head;
  const std::string beginning = read(log, head.size());
  if (!head.starts_with(std::string_view(beginning).substr(0, beginning.find('\n'))))   // torn by a crash it is a beginning
    throw Error(ErrorCode::usage, "this is no log of tasks").about(log.name).hint("name another file for --joblog");
  return read(log, std::numeric_limits<std::size_t>::max());
}

}  // namespace

std::vector<bool> JobLogFile::read_done(const std::string& path, plan::Resume resume) {
  if (path.empty() || resume == plan::Resume::none) return {};
  return plan::tasks_done(read_whole(find_named_file(path, not_written), resume), resume);
}

JobLogFile::JobLogFile(const std::string& path, plan::Resume resume, Put put) : path_(path), put_(std::move(put)) {
  if (path.empty()) return;
  std::string before;
  do {                                           // again where it was made in between
    const NamedFile log = find_named_file(path, not_written);
    before = read_whole(log, resume);
    file_ = open_to_append(log, resume == plan::Resume::none ? Appending::emptied : Appending::to_all);
  } while (!file_ && errno == EEXIST);
  if (!file_) must_be_writable(errno);
  done_ = plan::tasks_done(before, resume);
  if (before.empty()) text_ = plan::job_log_head;
  else if (before.back() != '\n') text_ = "\n";  // torn by a crash
  if (!may_wait(file_.get())) put_ = append_whole;   // a part could be taken for a task that is done
  if (!text_.empty()) write();
}

void JobLogFile::write() {
  if (!put_(file_.get(), text_)) must_be_writable(errno);
}

void JobLogFile::must_be_writable(int why) const {
  if (why != 0) throw Error(ErrorCode::unavailable, not_written).about(path_).because(why);
}

void JobLogFile::add(const plan::JobLogLine& line) {
  if (!file_) return;
  text_.clear();
  plan::write_job_log(text_, line);
  write();
}

}  // namespace thole::app
