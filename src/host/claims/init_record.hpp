// What `thole init` knows of earlier ones, in its own lock file (state_dir.hpp, lock_of): nobody but root reads or writes it.
//
// A line of text for people, then one line each of
//   device NUMBER                  a file system that the directory has lain on since the machine started, the newest last
//   held NODE:INODE PID START UID  who had a node locked, and might, when it was closed to newcomers
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace thole::host {

struct InitRecord {
  static constexpr uid_t unknown = static_cast<uid_t>(-1);
  struct Held {
    std::string node;           // its name, and the number of its inode: one made anew is another
    pid_t pid = 0;              // that took the lock, by the kernel
    std::uint64_t start = 0;    // 0: it had ended already, and a child of it had the lock
    uid_t uid = unknown;
  };
  std::vector<std::uint64_t> devices;
  std::vector<Held> held;

  void add_device(std::uint64_t device);
  bool tells_of(const std::string& node) const;
};

InitRecord read_init_record(int file);
bool write_init_record(int file, const InitRecord& record);

}  // namespace thole::host
