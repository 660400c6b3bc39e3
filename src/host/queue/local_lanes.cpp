#include "host/queue/local_lanes.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/mounting.hpp"
#include "host/process/copied.hpp"
#include "host/process/detached.hpp"
#include "host/process/file_within.hpp"
#include "host/process/open_files.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/tree.hpp"
#include "host/queue/copied_queue.hpp"
#include "host/queue/runner_seat.hpp"
#include "host/queue/task_processes.hpp"
#include "host/queue/unseen_note.hpp"
#include "model/boot.hpp"

namespace thole::host {
namespace {

// An empty record: whatever its last lane left has been settled, or there was none. What says which lane this is is written by
// itself (note_lane).
bool begin_record(const port::SeenRecord& seen, model::JobId job) {
  const auto record = std::make_unique<model::LaneRecord>();
  record->job.store(job);
  record->file = identity_of_file(seen.file());
  while (record->number == 0) record->number = random_bits();
  model::put_boot(*record, known_boot());
  record->mounting = mounting_of(seen.file());
  record->magic = model::lane_magic;
  return seen.write_bytes(0, record.get(), sizeof *record);
}

// By the lane itself.
bool note_lane(const port::SeenRecord& seen) {
  const auto process = read_self();
  const bool known = process && clocks_ahead().known;
  if (!seen.write(seen->start_ticks, known ? start_for_all(*process) : 0)) return false;
  return seen.write(seen->pid_namespace, pid_namespace()) && seen.write(seen->pid, ::getpid()) &&
         seen.write(seen->namespace_seal, model::namespace_seal(*seen)) &&
         seen.write(seen->number_seal, model::number_seal(*seen)) && seen.write(seen->calls_seal, model::calls_seal(*seen)) &&
         seen.write(seen->mounting_seal, model::mounting_seal(*seen)) &&
         seen.write(seen->start_seal, model::start_seal(*seen));
}

// A full disk has no room for it.
void write_pid(const Fd& lock) {
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) == 0) static_cast<void>(::pwrite(lock.get(), pid.data(), pid.size(), 0) > 0);
}

// A killed process closes its files first. Until it has ended its tasks are its children, and its end sends those of them that
// stand still by then a HUP and a CONT, as the kernel does with a process group that nobody looks after any more.
bool is_lane_on_its_way_out(pid_t pid) {
  const auto process = read_process(pid);
  return process && process->name == lane_process_name && user_of(pid) == ::geteuid() && is_dying(pid);
}

// Its number may mean somebody else: to whoever is in another pid namespace, or when it has been used again. Its tasks have no
// copy of its mail.
void find_process(port::LaneView& lane, const QueueFiles& files) {
  if (!lane.record) return;
  const pid_t pid = lane.record->pid;
  Fd process = pid > 0 ? end_of(pid) : Fd();
  const bool known = process && lane.mail && proc_numbers_are_ours() && has_open(pid, lane.mail.get());
  if (known) lane.pid = pid;
  if (known || (process && !lane.is_copy && is_lane_on_its_way_out(pid))) lane.process = std::move(process);
  else if (lane.mail) lane.process = files.reach_lane(lane.number);   // an error of it tells that nobody reads any more
}

// Of a queue in this directory; by another path, too.
bool is_told_of(const std::string& directory, pid_t pid, const ShownEnvironment& shown) {
  const std::string path = shown.word("THOLE_QUEUE_DIR=");
  const model::FileIdentity theirs = path.empty() ? model::FileIdentity{} : file_within(pid, path).file;
  return theirs == model::FileIdentity{} ? path == directory : theirs == file_here(directory).file;
}

}  // namespace

// The FIFO is opened before the seat is taken: whoever finds somebody there may trust that he gets to know (LocalDoor::told).
// Who finds the seat taken by one that was killed waits for his end: those who have asked him for something may trust in us.
std::optional<port::RunnerSeat> LocalLanes::sit() {
  files_.make();
  for (;;) {
    port::RunnerSeat seat;
    seat.wake = files_.open_wake();
    if (take_seat(files_.runner_file(), seat.lock)) {
      write_pid(seat.lock);
      ::unlink(files_.unseen_file().c_str());    // what the one before has said
      seat.removals = files_.watch_removals();
      start_.reset();
      return seat;
    }
    seat.wake.reset();
    const SeatLook other = look_at_seat(files_.runner_file());
    if (other.state == SeatLook::kept) return std::nullopt;
    if (other.state == SeatLook::dying) ends_by(other.pid, std::nullopt);
  }
}

// Whoever else would start a runner waits meanwhile for us (`start`): one that waits where the old one was would bring that
// back.
bool LocalLanes::relieve() {
  Fd start = files_.open_start();
  if (::flock(start.get(), LOCK_EX | LOCK_NB) != 0) return false;
  const SteadyTime give_up = std::chrono::steady_clock::now() + patience_;
  bool asked = false;
  for (Backoff pause;; pause.rest()) {
    const SeatLook other = look_at_seat(files_.runner_file());
    if (other.state != SeatLook::kept && other.state != SeatLook::dying) break;
    const auto note = read_unseen(files_.unseen_file());
    if (note ? !sees_more_here(*note) : !asked) return false;   // it sees more by now, or another one has taken its seat
    if (other.state == SeatLook::dying) ends_by(other.pid, give_up);
    else if (!asked) asked = files_.ask_runner_to_leave();
    if (std::chrono::steady_clock::now() > give_up) return false;   // an earlier build's hears nothing of that
  }
  start_ = std::move(start);
  return true;
}

bool LocalLanes::is_awaited() {
  const Fd start = files_.open_start();
  return ::flock(start.get(), LOCK_EX | LOCK_NB) != 0;
}

bool LocalLanes::keep(port::RunnerSeat& seat) {
  const int before = seat.lock.get();
  if (!is_at(files_.runner_file(), before) && !take_seat(files_.runner_file(), seat.lock)) return false;
  if (seat.lock.get() != before) write_pid(seat.lock);
  if (!files_.is_wake(seat.wake)) seat.wake = files_.open_wake();
  return true;
}

std::vector<port::LaneView> LocalLanes::look() {
  std::vector<port::LaneView> lanes;
  for (unsigned number : files_.lanes()) {
    try {
      lanes.push_back(look_at(number));
    } catch (const Error& error) {               // the others are no worse for it
      port::LaneView& unknown = lanes.emplace_back();
      unknown.number = number;
      unknown.problem = error.full();
    }
  }
  return lanes;
}

port::LaneView LocalLanes::look_at(unsigned number) {
  port::LaneView view;
  view.number = number;
  view.record = files_.see_record(number, false);
  view.is_copy = view.record && is_copy(*view.record, view.record.file());
  view.of_another_moment = view.record && is_of_another_moment(*view.record, view.record.file());
  view.mail = files_.reach_lane(number);
  find_process(view, files_);
  view.end = files_.watch_life(number);          // before the trial, so that the end of a holder is not missed in between
  Fd trial = files_.open_life(number);
  view.held = ::flock(trial.get(), LOCK_EX | LOCK_NB) != 0;
  if (!view.held) view.end.reset();
  return view;
}

std::optional<port::LaneSeat> LocalLanes::take(unsigned number, model::JobId job) {
  port::LaneSeat seat;
  seat.number = number;
  seat.life = files_.open_life(number);
  if (::flock(seat.life.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  seat.mail = files_.open_mail(number);
  seat.record = files_.see_record(number, true);
  if (!begin_record(seat.record, job)) files_.cannot_write_record(number);
  return seat;
}

pid_t LocalLanes::fork(port::LaneSeat seat, port::RunnerSeat& runner, const std::function<int(port::LaneSeat&)>& work) {
  const pid_t pid = ::fork();
  if (pid < 0) throw not_started("a lane", errno);
  if (pid > 0) return pid;
  runner.lock.reset();
  runner.wake.reset();
  runner.removals.reset();
  ::setpgid(0, 0);
  be_known_as(lane_process_name);
  (void)let_descendants_copy();   // a job's claim has no door to ask at: what claims inside copies its locks from here
  int status = 125;
  try {
    if (note_lane(seat.record)) status = work(seat);   // else nobody could find it
  } catch (const std::exception&) {   // a bug, or no memory; the runner looks after what is left
  }
  ::_exit(status);
}

// Not by their parents, who may be gone, nor by their descriptors alone, which may be closed.
std::vector<Fd> LocalLanes::bearers(const port::RunTrace& run) {
  return living_of(run, files_);
}

bool LocalLanes::signal_bearers(const port::RunTrace& run, model::Signal signal) {
  return signal_processes_of(run, files_, static_cast<int>(signal));
}

// By their descriptors: the name that a file had says so also when it has been removed, or its directory moved. Where the
// record is there, whoever has neither that nor the lock open is of a queue that had the same directory before. Where it is
// not, the directory tells: by the path that the process was told, or another one that leads there.
std::vector<Fd> LocalLanes::holders(unsigned number, const port::RunTrace& run) {
  refuse_elsewhere(run);
  const Fd life = files_.watch_life(number);
  const port::SeenRecord record = files_.see_record(number, false);
  const std::string name = fmt::format("/{}.life", number);
  const auto may_be_of_run = [&](pid_t pid) {
    int want = 0;
    const bool is_lanes = has_own_fifo_open(pid, name, &want);
    const bool is_ours = is_lanes && (has_open(pid, record.file().get(), &want) || (life && has_open(pid, life.get(), &want)));
    if (!is_ours) refuse_unlooked(want);
    if (!is_lanes) return false;
    const ShownEnvironment shown = environment_of(pid);
    refuse_unlooked(shown.why);
    if (!is_ours && (record || !is_told_of(files_.directory(), pid, shown))) return false;
    return shown.look_for("THOLE_TASK=") != Word::there || shown.look_for("THOLE_TASK=" + run.mark) == Word::there;
  };
  std::vector<Fd> ends;
  for (pid_t pid : pids_to_look_at())
    if (pid != ::getpid() && may_be_of_run(pid))
      if (Fd end = end_of(pid)) {
        ends.push_back(std::move(end));
        if (ends.size() == most_ends) break;
      }
  return ends;
}

void LocalLanes::run_aside(const std::string& command, const std::string& directory,
                           const std::vector<std::string>& environment) {
  run_detached(
      {{"/bin/sh", "-c", fmt::format("cd {} && {{ {}\n}} >/dev/null 2>&1 &", shell_quote(directory), command)}, environment});
}

}  // namespace thole::host
