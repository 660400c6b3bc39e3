#include "host/queue/task_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/machine_clocks.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/identity.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/open_files.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/tree.hpp"
#include "host/queue/copied_queue.hpp"

namespace thole::host {
namespace {

constexpr unsigned looks_for_processes = 20;

// The command where it lives. One that /proc hides from us, on an older kernel, is told by its process group alone: it was made
// the leader of one. Where its lane has noted neither who it is nor in which pid namespace (an earlier build), that number may
// be anybody's who leads a group: such a one may be of it, and is not signalled.
std::optional<TaskProcess> command_of(const port::RunTrace& run) {
  if (run.command <= 0 || (run.pid_namespace != 0 && run.pid_namespace != pid_namespace())) return std::nullopt;
  TaskProcess found{run.command, TaskProcess::command, end_of(run.command)};
  if (!found.end || is_readable(found.end.get())) return std::nullopt;
  const std::uint64_t number = number_of_held(found.end);
  const auto seen = read_process(run.command);
  bool same = ::getpgid(run.command) == run.command;
  if (run.identity.number != 0 && number != 0) same = run.identity.number == number;
  else if (run.identity.start_ticks != 0 && seen) same = began_at(*seen, run.identity.start_ticks);
  if (run.pid_namespace == 0 && run.identity.number == 0 && run.identity.start_ticks == 0) found.how = TaskProcess::untold;
  return same ? std::optional(std::move(found)) : std::nullopt;
}

// By its effective user.
bool is_of_our_user(pid_t pid) {
  const std::string path = fmt::format("/proc/{}", pid);
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0) return about.st_uid == ::geteuid();
  refuse_unlooked(errno);
  return false;
}

Word shown_word(pid_t pid, const std::string& word) {
  const ShownEnvironment shown = environment_of(pid);
  refuse_unlooked(shown.why);
  return shown.look_for(word);
}

// Whether it is somebody else's, though its environment is closed to us: in the session of a process of another user (sshd's,
// of a login), or of one that shows no mark. Our own session is that of lanes, too.
bool is_anothers(pid_t pid, const std::string& word) {
  const pid_t session = ::getsid(pid);
  if (session <= 0 || session == pid || session == ::getsid(0) || !read_process(session)) return false;
  return !is_of_our_user(session) || shown_word(session, word) == Word::missing;
}

// One that lives and whose start cannot be read may be of it.
std::optional<TaskProcess::Belongs> belongs(const port::RunTrace& run, pid_t pid, const std::string& word) {
  switch (shown_word(pid, word)) {
    case Word::there: return TaskProcess::marked;
    case Word::missing: return std::nullopt;
    case Word::untold: break;
  }
  const auto process = read_process(pid);
  if (process ? is_ended_state(process->state) : !is_of_our_user(pid)) return std::nullopt;
  const std::uint64_t start = run.identity.start_ticks;
  const bool later = !process || (start != 0 ? start_for_all(*process) + 1 >= start : !in_first_user_namespace());
  return later && !is_anothers(pid, word) ? std::optional(TaskProcess::untold) : std::nullopt;
}

bool descends_from_us(pid_t pid) {
  for (auto process = read_process(pid); process && process->parent > 1; process = read_process(process->parent))
    if (process->parent == ::getpid()) return true;
  return false;
}

// The lock of a task's lane. Who has it has inherited it from the lane, mostly: a descriptor can be sent to anybody, too. A
// lane that has lost its other files has it as well, as has its child on the way to execve(2): neither is left by the task.
class LaneLock {
 public:
  LaneLock(const port::RunTrace& run, const QueueFiles& files) : run_(run) {
    if (!run.lane) return;
    life_ = files.watch_life(*run.lane);
    name_ = fmt::format("/{}.life", *run.lane);
    path_ = files.life_file(*run.lane);
  }

  std::optional<TaskProcess::Belongs> belongs(pid_t pid) const {
    if (!life_) return std::nullopt;
    int want = 0;
    const bool has_it = has_own_fifo_open(pid, name_, &want);
    if (!has_it) refuse_unlooked(want);
    if (!has_it || !keeps_lock(pid, life_.get(), to_the_end).value_or(false)) return std::nullopt;
    const ShownEnvironment shown = environment_of(pid);
    refuse_unlooked(shown.why);
    if (shown.is_untold() || is_of_another(pid)) return std::nullopt;
    if (shown.word("THOLE_TASK=").starts_with(run_.mark)) return TaskProcess::keeper;   // whoever it has become
    const auto process = read_process(pid);
    if (!run_.is_alone || !process || is_of_a_queue(*process)) return std::nullopt;
    const std::uint64_t start = run_.lane_start;
    const bool may_have_inherited = is_of_our_user(pid) && start != 0 && start_for_all(*process) + 1 >= start;
    return may_have_inherited || descends_from_us(pid) ? TaskProcess::keeper : TaskProcess::holder;
  }

  // Nobody has anything of the lane's open any more. (The reading end hangs up once a writer has been there and gone.)
  bool is_given_up() const {
    if (!life_) return false;
    open_at(AT_FDCWD, path_.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW).reset();
    pollfd end{life_.get(), POLLIN, 0};
    return ::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
  }

  // Somebody has it, and none of those whose files we see.
  bool is_hidden(const QueueFiles& files) const {
    if (!life_) return false;
    const Fd trial = files.open_life(*run_.lane);
    if (::flock(trial.get(), LOCK_EX | LOCK_NB) == 0) return false;
    return std::ranges::none_of(pids_to_look_at(), [this](pid_t pid) {
      int want = 0;
      const bool has_it = has_own_fifo_open(pid, name_, &want);
      if (!has_it) refuse_unlooked(want);
      return has_it && keeps_lock(pid, life_.get(), to_the_end).value_or(true);
    });
  }

  // Anybody can take another task's mark on (a saved environment); what has another lane's lock is of that one all the same.
  bool is_of_another(pid_t pid) const { return life_ && keeps_lock_of_another_lane(pid, life_.get()); }

 private:
  const port::RunTrace& run_;
  Fd life_;
  std::string name_, path_;
};

}  // namespace

bool began_at(const ProcessStat& process, std::uint64_t ticks) {
  const std::uint64_t start = start_for_all(process);
  return start + 1 >= ticks && start <= ticks + 1;
}

void refuse_unlooked(int why) {
  if (is_want(why))
    throw Error(ErrorCode::unavailable, "cannot look at the queue's processes").because(why).hint(mend_of_want(why));
}

// The first pid namespace has the processes of all others, too, and shows them where it hides none.
void refuse_elsewhere(const port::RunTrace& run) {
  if (!proc_numbers_are_ours())
    throw port::Unseen(
        Error(ErrorCode::unavailable, "/proc is that of another pid namespace").hint("mount -t proc proc /proc"));
  const std::uint64_t ours = pid_namespace();
  if (run.pid_namespace == 0 || run.pid_namespace == ours) return;
  if (ours == first_of_pid_namespaces && user_of(1)) return;
  throw port::Unseen(Error(ErrorCode::unavailable, "it was started in another pid namespace (a container)")
                         .hint("any thole command in there, or outside of all containers"));
}

namespace {

[[noreturn]] void refuse_untold() {
  if (in_first_user_namespace())
    throw port::Unseen(Error(ErrorCode::unavailable, "the kernel lets nothing of it be signalled by this user")
                           .hint("end it as the user that it has become: sudo kill"));
  throw port::Unseen(Error(ErrorCode::unavailable,
                           "in a user namespace (unshare -r, a rootless container) what is outside of it can be neither told "
                           "apart nor signalled")
                         .hint("any thole command outside of that namespace"),
                     port::UnseenBy::user_namespace);
}

// With hidepid=2, say: a program that may be run and not read, or as root without CAP_SYS_PTRACE.
[[noreturn]] void refuse_hidden(const std::string& life) {
  throw port::Unseen(Error(ErrorCode::unavailable, fmt::format("something has the lock of its lane, {}, and none of the "
                                                               "processes whose files can be seen here", printable(life)))
                         .hint("root sees who it is, and can end it: sudo fuser -v " + shell_quote(life)),
                     port::UnseenBy::hidden);
}

}  // namespace

std::vector<pid_t> pids_to_look_at() {
  int why = 0;
  std::vector<pid_t> pids = all_pids(&why);
  refuse_unlooked(why);
  return pids;
}

Fd end_of(pid_t pid) {
  Fd end = open_pidfd(pid);
  if (!end) refuse_unlooked(errno);
  return end;
}

// Of our own processes alone: anybody can write any mark into the environment of his. Who keeps a lane's lock has it from that,
// whoever he is by now.
void for_each_process_of(const port::RunTrace& run, const QueueFiles& files,
                         const std::function<bool(TaskProcess)>& visit) {
  const std::string word = "THOLE_TASK=" + run.mark;
  refuse_elsewhere(run);
  const LaneLock lock(run, files);
  const bool given_up = in_first_user_namespace() && lock.is_given_up();   // elsewhere nothing is told of anybody
  pid_t known = 0;
  if (auto command = command_of(run); command && is_of_this_queue(run, files.directory(), *command)) {
    known = command->pid;
    const bool shows_it = is_of_our_user(known) && shown_word(known, word) == Word::there;
    if (command->how == TaskProcess::untold && shows_it) command->how = TaskProcess::command;
    if (!visit(std::move(*command))) return;
  }
  for (const pid_t pid : pids_to_look_at()) {
    const auto how = [&] {
      auto told = is_of_our_user(pid) ? belongs(run, pid, word) : std::nullopt;
      if (told == TaskProcess::untold && given_up && ::getsid(pid) == pid) told.reset();   // a login's, or a daemon
      if (told == TaskProcess::marked && lock.is_of_another(pid)) told.reset();
      return told ? told : lock.belongs(pid);
    };
    if (pid == known || pid == ::getpid() || !how()) continue;
    Fd end = end_of(pid);
    const auto still = end ? how() : std::nullopt;   // by now the number may be another's
    if (!still) continue;
    TaskProcess process{pid, *still, std::move(end)};
    const bool by_lock = *still == TaskProcess::keeper || *still == TaskProcess::holder;
    const bool is_ours = by_lock || is_of_this_queue(run, files.directory(), process);
    if (is_ours && !visit(std::move(process))) return;
  }
}

// Of whom nothing is told, in a user namespace, that one may be whatever lives of it.
std::vector<Fd> living_of(const port::RunTrace& run, const QueueFiles& files) {
  std::vector<Fd> ends;
  bool known = false;
  const bool all_are_told = in_first_user_namespace();
  for_each_process_of(run, files, [&](TaskProcess process) {
    known = known || process.how != TaskProcess::untold;
    if (ends.size() < most_ends) ends.push_back(std::move(process.end));
    return ends.size() < most_ends || (!known && !all_are_told);
  });
  if (!ends.empty() && !known && !all_are_told) refuse_untold();
  return ends;
}

bool signal_processes_of(const port::RunTrace& run, const QueueFiles& files, int signal) {
  std::set<pid_t> told;
  bool reached = false, refused = false, untold = false;
  const auto note = [&](bool sent) {
    reached = reached || sent || errno != EPERM;
    refused = refused || (!sent && errno == EPERM);
    return sent;
  };
  bool anew = true;
  pid_t group = 0;
  for (unsigned look = 0; anew && look < looks_for_processes; ++look) {
    anew = false;
    for_each_process_of(run, files, [&](const TaskProcess& process) {
      untold = untold || process.how == TaskProcess::untold;
      if (process.how == TaskProcess::untold || process.how == TaskProcess::holder) return true;
      if (!told.insert(process.pid).second) return true;
      anew = true;
      const pid_t its_group = ::getpgid(process.pid);
      if (group > 0 && its_group == group) return true;
      const bool leads = process.how == TaskProcess::command && its_group == process.pid;
      if (leads && note(signal_group_by_pidfd(process.end, its_group, signal))) group = its_group;
      else note(signal_by_pidfd(process.end, signal));
      return true;
    });
  }
  if (reached) return true;
  if (refused || (untold && !in_first_user_namespace())) refuse_untold();
  if (told.empty() && LaneLock(run, files).is_hidden(files)) refuse_hidden(files.life_file(*run.lane));
  return !told.empty();
}

}  // namespace thole::host
