// Where a user's queue lies: a directory of mode 0700 on a local disk, one for each host and each simulated machine.
//
// How this works. SQLite's log lives in memory that processes share, which network file systems do not give, and homes in labs
// are on NFS. So the queue lies in the state home where that is on a local disk and can be written; otherwise in
// /var/lib/thole/UID, where an administrator made that, or else in /var/tmp/thole-UID (host/own_directory.hpp). A queue that is
// there stays where it is, whatever could be chosen now.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace thole::host {

enum class Disk { local, gone_after_reboot, foreign };   // a local disk; memory; a network or an unknown file system

// Of the file system that holds `path`, or would hold it: that of the nearest directory above which exists.
Disk disk_of(const std::string& path);

struct QueuePaths {
  std::string named;                             // --queue-dir, THOLE_QUEUE_DIR: this directory itself; "" = choose
  std::string state_home;                        // XDG_STATE_HOME, ~/.local/state; "" = there is no home
  std::string no_state_home = "HOME is not set";  // why there is none
  std::string var_lib = "/var/lib/thole", temporary = "/var/tmp";
  std::string host;                              // one home, several hosts: each has its queue
  std::string machine;  // a simulated machine or a state directory of its own has one too; "" = this machine
  uid_t uid = 0;
  Disk (*disk)(const std::string& path) = disk_of;
};

struct QueueDir {
  std::string path;
  bool moved = false;                            // not in the state home
  std::string unexpected;                        // why it moved, where that surprises: there is no home that can be written
  std::vector<std::string> cautions;             // what doctor says about it
  std::string taken;                             // of one to be made: see ExpectedDirectory
};

// Makes it where there is none. Throws Error(unavailable) that names the fix.
QueueDir open_queue_dir(const QueuePaths& paths);

// The same for looking: makes nothing; nothing where no queue has been made.
std::optional<QueueDir> find_queue_dir(const QueuePaths& paths);

// The same, or where it would be made: what doctor names. Throws as open_queue_dir where none could be made.
QueueDir expected_queue_dir(const QueuePaths& paths);

// Other queues of the user for this machine: of a host name that it had earlier, or at a path that is used no more.
std::vector<std::string> other_queues(const QueuePaths& paths);

}  // namespace thole::host
