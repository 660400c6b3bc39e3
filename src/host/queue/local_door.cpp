#include "host/queue/local_door.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.hpp"
#include "base/soft_limits.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/detached.hpp"
#include "host/process/memory_policy.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"
#include "host/queue/code_copy.hpp"
#include "host/queue/copied_queue.hpp"
#include "host/queue/log_files.hpp"
#include "host/queue/runner_seat.hpp"
#include "host/queue/runner_surroundings.hpp"
#include "host/queue/task_processes.hpp"
#include "host/queue/unseen_note.hpp"
#include "host/surroundings/logout.hpp"
#include "model/boot.hpp"
#include "model/lane_record.hpp"

namespace thole::host {
namespace {

constexpr unsigned starts_in_a_row = 3;          // of runners that have ended before they sat

// Whether somebody has stopped this process, which goes by that name.
bool is_stopped(pid_t pid, std::string_view name) {
  const auto process = read_process(pid);
  return process && process->name == name && process->state == 'T';
}

// Of which its command was reached; nothing of another boot. For people: what keeps the lane's lock is named whether or not
// another task of the lane lives.
std::optional<port::RunTrace> trace_of(const QueueFiles& files, const model::Task& task, const std::string& mark) {
  const port::SeenRecord seen = files.see_record(static_cast<unsigned>(task.lane), false);
  if (!seen) return std::nullopt;
  const model::LaneRecord& record = *seen;
  const model::Boot boot = model::Boots(known_boot()).of(model::boot_of(record));
  if (boot == model::Boot::another) return std::nullopt;
  port::RunTrace run{.mark = mark};
  port::put_lane(run, &record, is_copy(record, seen.file()));
  for (std::size_t i = 0; i < record.bays.size(); ++i) {
    const model::LaneBay& bay = record.bays[i];
    if (bay.phase.load() != model::TaskPhase::reached || bay.job != task.job || bay.task != task.index) continue;
    if (bay.runs != task.runs) continue;
    const model::NotedCommand command = model::noted_command(record, i, boot);
    run.command = command.pid;
    run.identity = command.identity;
  }
  run.pid_namespace = model::pid_namespace_of(record);
  if (run.known_by != port::RunTrace::By::nothing) run.lane = static_cast<unsigned>(task.lane);
  run.is_alone = true;
  return run;
}

const char* why_it_counts(TaskProcess::Belongs how) {
  switch (how) {
    case TaskProcess::command:
    case TaskProcess::marked: break;
    case TaskProcess::keeper: return ", which has its lane's lock";
    case TaskProcess::holder: return ", which has its lane's lock, perhaps from somebody who sent it";
    case TaskProcess::untold: return ", which may be of it: its environment is closed";
  }
  return "";
}

// Whether it sees what we see. A runner that is not shown to us is elsewhere.
bool is_of_our_namespaces(pid_t runner) {
  if (runner <= 0 || !proc_numbers_are_ours()) return false;
  return std::ranges::all_of(std::array{"pid", "user"}, [&](const char* kind) {
    struct stat theirs {}, ours {};
    return ::stat(fmt::format("/proc/{}/ns/{}", runner, kind).c_str(), &theirs) == 0 &&
           ::stat(fmt::format("/proc/self/ns/{}", kind).c_str(), &ours) == 0 && theirs.st_ino == ours.st_ino;
  });
}

// It has nothing to do any more but to end; in a frozen cgroup, or within a disk that does not answer, it cannot.
[[noreturn]] void cannot_end(pid_t runner) {
  throw Error(ErrorCode::unavailable, "the queue's runner was killed and cannot end")
      .about(fmt::format("process {}", runner))
      .hint(fmt::format("what the queue was told is kept, and starts once it has ended\n"
                        "  what keeps it: ps -o pid,stat,wchan,cgroup -p {}", runner));
}

// It makes its FIFO again as soon as it sees that somebody has removed it; it does not, or something else is in that place.
[[noreturn]] void cannot_hear(const std::string& directory) {
  throw Error(ErrorCode::unavailable, "the queue's runner does not listen").about(directory + "/wake").hint(
      "what the queue was told is kept\n"
      "  who the runner is: cat " + shell_quote(directory + "/runner"));
}

}  // namespace

// A limit that whoever started us has set for himself is no reason for us to end.
void become_runner_process() {
  raise_soft_limits();
  const pid_t pid = ::fork();
  if (pid < 0) throw not_started("the runner", errno);
  if (pid > 0) {
    tell_starter(pid);
    ::_exit(0);
  }
  be_known_as(runner_name);
  ::signal(SIGCHLD, SIG_DFL);                     // ignored, the kernel would keep the statuses from us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);            // a killed lane leaves us its tasks, and how they end
  Fd null = open_at(AT_FDCWD, "/dev/null", O_RDWR);
  for (int standard = 0; standard <= 2; ++standard)
    if (null) ::dup2(null.get(), standard);
  if (::chdir("/") != 0) return;  // only a courtesy: the old directory stays busy
  // Whoever started us may be bound; the jobs of others are not to be. The kernel cuts this to our cpuset.
  cpu_set_t all[16];
  std::memset(all, 0xff, sizeof all);
  ::sched_setaffinity(0, sizeof all, all);
  set_memory_policy(model::MemoryPolicy::first_touch, {});
}

// Where logind ends all that a user has running when he logs out, only the user's own manager can start what stays.
BareCommand under_user_manager(const BareCommand& command) {
  BareCommand through = command;
  through.argv = {"/usr/bin/systemd-run",       "--user", "--quiet", "--collect", "--property=Type=forking",
                  "--property=KillMode=process"};
  for (const std::string& variable : command.environment) through.argv.push_back("--setenv=" + variable);
  through.argv.push_back("--");
  through.argv.insert(through.argv.end(), command.argv.begin(), command.argv.end());
  return through;
}

// Whoever has the seat has `wake` open from before he took it, and looks at the store afterwards. So he sees what we have
// stored: by our byte, or without it where he sat down later. Any other reader of `wake` may be about to end: who has lost the
// race for the seat, a lane that has just been forked.
bool LocalDoor::told(SteadyTime give_up) {
  for (Backoff pause;; pause.rest()) {
    const bool heard = files_.tell_runner();
    const SeatLook seat = look_at_seat(files_.runner_file());
    const bool late = std::chrono::steady_clock::now() > give_up;
    const bool leaves = seat.state == SeatLook::kept && heard && !late && is_left_by_an_older();
    if (seat.state == SeatLook::kept && heard && !leaves) return true;
    if (seat.state == SeatLook::dying && !ends_by(seat.pid, give_up)) cannot_end(seat.pid);
    if (seat.state == SeatLook::empty || seat.state == SeatLook::older) return false;
    if (seat.state == SeatLook::missing && (!heard || late)) return false;   // a runner that lives makes it again
    if (seat.state == SeatLook::kept && late) cannot_hear(files_.directory());
  }
}

// Of many who find no runner one starts it, and the others tell that one. A starter that hangs or was stopped is waited for as
// long as an old runner's end; then there may be several, of whom all but one end.
void LocalDoor::stir() {
  const SteadyTime give_up = std::chrono::steady_clock::now() + patience_;
  const bool somebody_hears = told(give_up);
  followed_ = true;
  if (somebody_hears) return;
  const Fd start = files_.open_start();
  for (Backoff pause; ::flock(start.get(), LOCK_EX | LOCK_NB) != 0; pause.rest())
    if (told(give_up)) return;
    else if (std::chrono::steady_clock::now() > give_up) break;
  for (unsigned started = 0; !told(give_up); ++started) {
    if (started == starts_in_a_row)
      throw Error(ErrorCode::unavailable, "the queue's runner ended at once").hint(says_why());
    check_seat(files_.runner_file());            // what keeps each runner from its seat is said without starting one
    static_cast<void>(known_boot());
    static_cast<void>(files_.open_wake());
    ::unlink(files_.unseen_file().c_str());      // what the one before has not seen says nothing of this one
    if (sits_down(start_runner(command_))) return;
  }
}

// False when it has ended instead: killed, or because another one had the seat. One that lives and is slow reads the store once
// it is up; nothing has to be said of that.
bool LocalDoor::sits_down(std::optional<pid_t> started) const {
  const SteadyTime up_by = std::chrono::steady_clock::now() + patience_;
  const Fd end = started ? open_pidfd(*started) : Fd();
  const bool gone = started && !end && errno == ESRCH;
  for (Backoff pause;; pause.rest()) {
    const bool ended = gone || (end && is_readable(end.get()));   // in this order: it may have left to one who sits
    if (look_at_seat(files_.runner_file()).state == SeatLook::kept) return true;
    if (ended) return false;
    if (std::chrono::steady_clock::now() < up_by) continue;
    if (end) return true;
    throw Error(ErrorCode::unavailable, "the queue's runner does not come up").hint(says_why());
  }
}

std::string LocalDoor::says_why() const { return "it says why in " + files_.directory() + "/runner.log"; }

std::optional<pid_t> LocalDoor::start_runner(const BareCommand& command) const {
  if (ends_with_the_session(logind_settings(Tree())) && ::access("/usr/bin/systemd-run", X_OK) == 0) {
    try {
      return run_detached(under_user_manager(command));
    } catch (const Error&) {  // no user manager (su, cron): it lives as long as it is let
    }
  }
  return run_detached(command);
}

// What a lane has noted of itself may mean another process: it is of another pid namespace, or has ended and its number is used
// again. Its mail is open in it, and in lanes that were started after it.
std::optional<pid_t> LocalDoor::process_of_lane(unsigned lane) const {
  const Fd mail = files_.reach_lane(lane);
  const port::SeenRecord record = files_.see_record(lane, false);
  const bool sure = mail && record && record->pid > 0 && proc_numbers_are_ours() && has_open(record->pid, mail.get());
  return sure ? std::optional(record->pid) : std::nullopt;
}

// A lane that was killed may have left its mail to a child that it has just forked, and reads no more of its own.
void LocalDoor::nudge(std::uint64_t lane) {
  const auto number = static_cast<unsigned>(lane);
  const bool heard = files_.tell_lane(number);
  const std::optional<pid_t> process = process_of_lane(number);
  if (!heard || !process || is_dying(*process)) stir();
}

// Its reader's end is an error at the other.
Fd LocalDoor::runner_end() try {
  return !is_left_by_an_older() && runner() ? files_.watch_runner() : Fd();
} catch (const Error&) {                         // who stirs it is told why
  return Fd();
}

std::optional<pid_t> LocalDoor::runner() try {
  const SeatLook seat = look_at_seat(files_.runner_file());
  return seat.state == SeatLook::kept ? std::optional(seat.pid) : std::nullopt;
} catch (const Error&) {                         // who would start one is told why
  return std::nullopt;
}

std::string LocalDoor::surroundings(const std::vector<std::string>& files) {
  const pid_t pid = runner().value_or(0);
  if (pid <= 0) return "";                       // the next one is started from here; or it is in another pid namespace
  check_same_files(pid, files);
  const std::vector<std::string> had = had_from_runner(pid);
  if (had.empty()) return "";
  return fmt::format("the queue's runner (process {}) was started elsewhere, so the job will have {}; a queue that is empty "
                     "for 5 s lets it end, and the next submit starts one from here", pid, join(had, ", "));
}

std::optional<pid_t> LocalDoor::stopped_runner() {
  const std::optional<pid_t> pid = runner();
  return pid && is_stopped(*pid, runner_name) ? pid : std::nullopt;
}

std::optional<pid_t> LocalDoor::stopped_lane(std::uint64_t lane) {
  const std::optional<pid_t> process = process_of_lane(static_cast<unsigned>(lane));
  return process && is_stopped(*process, lane_process_name) ? process : std::nullopt;
}

bool LocalDoor::lane_works(unsigned lane) const {
  const std::optional<pid_t> process = process_of_lane(lane);
  return process ? !is_dying(*process) : static_cast<bool>(files_.reach_lane(lane));
}

// What the runner says of it counts for as long as that one sits.
std::optional<port::UnseenRun> LocalDoor::unseen(const model::Task& task, const std::string& mark) {
  const auto lane = static_cast<unsigned>(task.lane);
  if (lane_works(lane)) return std::nullopt;
  if (const SeatLook seat = look_at_seat(files_.runner_file()); seat.state == SeatLook::kept) {
    if (const auto note = read_unseen(files_.unseen_file())) return note->find(task);
    if (!is_of_our_namespaces(seat.pid))
      return port::UnseenRun{.job = task.job, .task = task.index, .runs = task.runs,
                             .why = "it is in other namespaces than this command, and has not told yet what it sees, or what "
                                    "it has told cannot be read (try: the same again, or room on the disk of " +
                                    files_.directory() + ")"};
  }
  if (task.lane == model::lane_of_untold)        // as the store says
    return port::UnseenRun{.job = task.job, .task = task.index, .runs = task.runs,
                           .why = fmt::format("{} (try: {})", model::why_untold, model::who_can_tell)};
  const std::optional<port::RunTrace> run = trace_of(files_, task, mark);
  if (!run || (run->command == 0 && run->known_by != port::RunTrace::By::nothing)) return std::nullopt;
  try {
    static_cast<void>(living_of(*run, files_));
    return std::nullopt;
  } catch (const port::Unseen& why) {
    return port::UnseenRun{task.job, task.index, task.runs, run->pid_namespace, why.by, false,
                           why.boot, fmt::format("{} (try: {})", why.what(), why.hint())};
  }
}

bool LocalDoor::would_see_more() const {
  const auto note = read_unseen(files_.unseen_file());
  return note && sees_more_here(*note);
}

void LocalDoor::does_not_leave(pid_t runner) const {
  const bool stopped = runner > 0 && is_stopped(runner, runner_name);
  throw Error(ErrorCode::unavailable, "the queue's runner does not see all that would be seen from here, and does not leave "
                                      "for one that does")
      .about(runner > 0 ? fmt::format("process {}", runner) : "in another pid namespace")
      .hint(stopped ? fmt::format("it is stopped: kill -CONT {}", runner)
                    : "who it is: cat " + shell_quote(files_.runner_file()));
}

// By a runner that asks it to, since whoever only looks does not stay until it has gone (Lanes::relieve).
bool LocalDoor::relieve(const Files& files, bool awaited) {
  const SeatLook other = look_at_seat(files_.runner_file());
  if (other.state != SeatLook::kept) return true;
  const auto note = read_unseen(files_.unseen_file());
  if (!note) return is_of_our_namespaces(other.pid);
  if (!sees_more_here(*note)) return true;
  UnseenCounts unseen;
  for (const auto& tasks : note->tasks)
    for (const auto& [first, last] : tasks.ranges) unseen[tasks.one.job] += last - first + 1;
  if (!finds_same_files(other.pid, files(unseen))) return true;
  if (awaited && waited_in_vain_) does_not_leave(other.pid);
  const SteadyTime give_up = std::chrono::steady_clock::now() + patience_;
  check_seat(files_.runner_file());
  BareCommand command = command_;
  command.argv.emplace_back(relieving_runner);
  static_cast<void>(start_runner(command));
  for (Backoff pause; awaited && would_see_more(); pause.rest()) {
    const SeatLook now = look_at_seat(files_.runner_file());
    if (now.state == SeatLook::kept && now.pid != other.pid) return true;
    if (std::chrono::steady_clock::now() <= give_up) continue;
    waited_in_vain_ = true;
    does_not_leave(other.pid);
  }
  return true;
}

std::vector<std::string> LocalDoor::left_of(const model::Task& task, const std::string& mark) {
  if (task.lane == model::lane_of_untold) return {"what is not seen from here: it may have begun before a boot of the machine"};
  if (lane_works(static_cast<unsigned>(task.lane))) return {};
  const std::optional<port::RunTrace> run = trace_of(files_, task, mark);
  if (!run) return {};
  std::vector<std::string> left;
  try {
    for_each_process_of(*run, files_, [&](const TaskProcess& one) {
      const auto seen = read_process(one.pid);
      left.push_back(fmt::format("process {}{}", seen ? describe_process(*seen) : fmt::format("{}, hidden by /proc", one.pid),
                                 why_it_counts(one.how)));
      return true;
    });
  } catch (const port::Unseen& unseen) {
    return {fmt::format("what is not seen from here: {} (try: {})", unseen.what(), unseen.hint())};
  }
  return left;
}

std::optional<model::JobId> LocalDoor::job_of_lane(pid_t pid) {
  for (const unsigned lane : files_.lanes()) {
    const port::SeenRecord record = files_.see_record(lane, false);
    if (record && process_of_lane(lane) == pid) return record->job.load();
  }
  return std::nullopt;
}

void LocalDoor::forget_logs(model::JobId job) { remove_logs(files_.logs(), job); }

void LocalDoor::settle_code(const Owner& owner) {
  for (const AbandonedCode& copy : abandoned_code(files_.snapshots(), files_.logs())) {
    if (const std::optional<model::JobId> job = owner(copy.root)) give_code(copy.root, files_.logs(), *job);
    else remove_code(copy.root);
  }
}

}  // namespace thole::host
