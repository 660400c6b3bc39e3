// What lives of a task whose lane is dead.
//
// How a process is known as the task's. Its environment says so (THOLE_TASK), and the command is known by what its lane has
// noted of it: the pid, which counts only for the process that had it then. What has become another user's is known by that and
// the lock of its lane (a descriptor with its flock; to have the FIFO open is not enough). What has cleared its environment
// shows nothing: where no other task of the lane lives it is known by the lock alone, if it has inherited that: it is below
// us, or of our user and began later than the lane. Who else has the lock may have been sent it: he is waited for, and never
// signalled. The kernel may close the environment of a process to its own user (a program with a file capability, one that
// cannot be read, after `sg`): of one that began after the command, and is nobody else's by its session, it cannot be told.
// Such a one is waited for, and never signalled; but for who leads a session of his own once nothing has the lane's lock:
// that is a login's, as an ssh-agent is, or a daemon that has let go of everything. With hidepid=2 proc does not even show
// it; the command alone is known then.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/process/tree.hpp"
#include "host/queue/queue_files.hpp"
#include "model/lane_record.hpp"
#include "port/lanes.hpp"

namespace thole::host {

// Whoever cannot be looked at, for want of memory or descriptors, may be one of those we look for, and a run that lives would
// count as lost and be begun again: these throw Error(unavailable) then. `why`: an errno, or 0.
std::vector<pid_t> pids_to_look_at();
Fd end_of(pid_t pid);
void refuse_unlooked(int why);

// Throws port::Unseen where what lives of the run would not be seen from here.
void refuse_elsewhere(const port::RunTrace& run);

// A time namespace whose clock is ahead by a part of a tick is told some starts a tick later.
bool began_at(const ProcessStat& process, std::uint64_t ticks);

struct TaskProcess {
  enum Belongs { command, marked, keeper, holder, untold };   // keeper, holder: by the lane's lock, surely or perhaps
  pid_t pid = 0;
  Belongs how = untold;
  Fd end;                                        // readable when it has ended
};

// Visits one after another, the command first, until `visit` says false. A task may have more processes than we may have
// descriptors: whoever keeps any keeps a few. Throws port::Unseen also where what lives is that of the queue of which this one
// is a copy (copied_queue.hpp).
void for_each_process_of(const port::RunTrace& run, const QueueFiles& files, const std::function<bool(TaskProcess)>& visit);
inline constexpr std::size_t most_ends = 8;      // the end of any calls for another look

// What lives of it, as descriptors that become readable when they end, of many a few. Throws port::Unseen where that cannot be
// told from here.
std::vector<Fd> living_of(const port::RunTrace& run, const QueueFiles& files);

// To the command, with its process group, and to all others of it that are told. What forks meanwhile is looked for again.
// False: there are none. Throws port::Unseen where none of them may be signalled from here, or whatever there is is hidden.
bool signal_processes_of(const port::RunTrace& run, const QueueFiles& files, int signal);

}  // namespace thole::host
