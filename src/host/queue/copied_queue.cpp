#include "host/queue/copied_queue.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "host/mounting.hpp"
#include "host/process/file_within.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr model::FileIdentity no_file{};

// Behind the mark, and the number of a lane that has one.
std::string directory_in(std::string_view word, const std::string& mark) {
  word.remove_prefix(mark.size());
  return std::string(word.starts_with('/') ? word : word.substr(word.find('@') + 1));
}

// `named`: the directory; empty where its environment is closed to us.
[[noreturn]] void refuse_original(bool of_copy, const std::string& directory, pid_t pid, const std::string& named) {
  const model::FileIdentity there = file_here(named).file;
  const bool is_another = !named.empty() && there != no_file && there != file_here(directory).file;
  throw port::Unseen(Error(ErrorCode::unavailable,
                           fmt::format("it runs in the queue {}, {}",
                                       named.empty() ? "that it does not name" : "in " + printable(named),
                                       of_copy ? "of which this one is a copy" : "and nothing shows that this is that one"))
                         .hint(is_another ? fmt::format("thole --queue-dir {} jobs", printable(shell_quote(named)))
                                          : fmt::format("kill {}", pid)),
                     port::UnseenBy::original);
}

// Beside one who writes a look may find one of the two times of before and the other of after, and many looks the same while he
// is kept from going on: so they are looked at until one finds them alike, or two the same with a step between them for which
// the kernel waits until his call is done. (It sets both within the call, with the inode locked, and lseek(2) locks it.)
bool was_put_back(const model::LaneRecord& record, const Fd& file) {
  if (record.calls_seal != model::calls_seal(record)) return false;
  constexpr int most_looks = 100;
  const auto same = [](const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; };
  struct stat before{}, about{};
  for (int looks = 0; looks < most_looks; before = about, ++looks) {
    if (looks > 0) static_cast<void>(::lseek(file.get(), 0, SEEK_HOLE));
    if (::fstat(file.get(), &about) != 0 || same(about.st_mtim, about.st_ctim)) return false;
    if (looks > 0 && same(about.st_mtim, before.st_mtim) && same(about.st_ctim, before.st_ctim)) return true;
  }
  return false;
}

// Nothing of it may have reached the disk before that was taken down.
bool was_mounted_anew(const model::LaneRecord& record, const Fd& file) {
  const std::uint64_t then = model::mounting_of(record), now = mounting_of(file);
  return then != 0 && now != 0 && then != now;
}

}  // namespace

bool is_copy(const model::LaneRecord& record, const Fd& file) {
  return record.file != no_file && record.file != identity_of_file(file);
}

bool is_of_another_moment(const model::LaneRecord& record, const Fd& file) {
  return was_put_back(record, file) || was_mounted_anew(record, file);
}

bool is_of_this_queue(const port::RunTrace& run, const std::string& directory, const TaskProcess& process) {
  if (run.known_by == port::RunTrace::By::number || process.how == TaskProcess::untold) return true;
  const ShownEnvironment shown = environment_of(process.pid);
  refuse_unlooked(shown.why);
  const std::string word = shown.word("THOLE_TASK=");
  const bool shows_it = word.starts_with(run.mark), of_copy = run.known_by == port::RunTrace::By::nothing;
  const std::string named = shows_it ? directory_in(word, run.mark) : "";
  if (!of_copy) {
    if (!shows_it) return process.how == TaskProcess::command;   // by what its lane has noted
    const model::FileIdentity theirs = file_within(process.pid, named).file;
    if (theirs != no_file && theirs == file_here(directory).file) return true;
  }
  if (is_readable(process.end.get())) return false;
  refuse_original(of_copy, directory, process.pid, named);
}

}  // namespace thole::host
