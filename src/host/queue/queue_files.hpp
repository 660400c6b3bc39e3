// The files by which the processes of a queue find each other, in the queue's directory (0700, ours).
//
//   runner        record lock: the one runner (runner_seat.hpp); its text, for people, is the runner's pid
//   start         flock: whoever starts a runner, until that one sits
//   wake          FIFO: a byte makes the runner look again. Others may read it for a moment: who has it says `runner` alone
//   unseen        what the runner does not see of what dead lanes have left (unseen_note.hpp)
//   lanes/N       a lane's record (model/lane_record.hpp)
//   lanes/N.life  FIFO, flocked by the lane; copies lie with its tasks. When the last one closes, the lock is free and whoever
//                 polls the other end is woken, in this order
//   lanes/N.mail  FIFO: a byte makes the lane read the store
//   logs/         what the tasks wrote (log_files.hpp)
//   snapshots/    copies of code (code_copy.hpp)
#pragma once

#include <fcntl.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/poke.hpp"
#include "base/same_file.hpp"
#include "port/lanes.hpp"

namespace thole::host {

class QueueFiles {
 public:
  explicit QueueFiles(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }
  std::string logs() const { return directory_ + "/logs"; }
  std::string runner_log() const { return directory_ + "/runner.log"; }
  std::string snapshots() const { return directory_ + "/snapshots"; }

  void make() const;                             // the directories within; throws Error(unavailable)

  std::string runner_file() const { return directory_ + "/runner"; }   // opened in runner_seat.hpp alone
  // A FIFO, made when missing, and its directory: to read from (and to keep open for writers), or to tell somebody. Telling:
  // false when nobody reads. All throw where that cannot be told (no descriptor, a disk that refuses): nobody is counted as
  // gone for that.
  Fd open_wake() const { return open_fifo("wake"); }
  bool tell_runner() const { return tell("wake", look_again); }
  std::string unseen_file() const { return directory_ + "/unseen"; }
  // For one that sees more; it does so only where there is something unseen.
  bool ask_runner_to_leave() const { return tell("wake", ask_to_leave); }
  Fd open_start() const;                         // locked by whoever starts a runner; made when missing; throws
  Fd watch_runner() const { return open_end("wake", O_WRONLY); }   // polls as an error once nobody reads; empty: nobody does
  bool is_wake(const Fd& wake) const { return is_at(directory_ + "/wake", wake.get()); }
  Fd watch_removals() const;                     // readable when the directory, or something in it, was removed; may be empty
  Fd open_mail(unsigned lane) const { return open_fifo(lane_name(lane) + ".mail"); }
  bool tell_lane(unsigned lane) const { return tell(lane_name(lane) + ".mail", look_again); }
  Fd reach_lane(unsigned lane) const { return open_end(lane_name(lane) + ".mail", O_WRONLY); }   // empty: it does not live
  bool stands(const port::LaneSeat& seat) const;   // its files have their names
  std::string life_file(unsigned lane) const { return path_of(lane) + ".life"; }
  Fd open_life(unsigned lane) const { return open_fifo(lane_name(lane) + ".life"); }
  Fd watch_life(unsigned lane) const { return open_end(lane_name(lane) + ".life", O_RDONLY); }   // hangs up at the end

  std::vector<unsigned> lanes() const;           // numbers, ascending
  std::vector<Error> troubles() const;           // what is there and cannot be used, each with its fix; changes nothing
  [[noreturn]] void cannot_write_record(unsigned lane) const { cannot("cannot write a lane's record", lane_name(lane)); }
  port::SeenRecord see_record(unsigned lane, bool make) const;   // empty: there is none; throws when it cannot be made

 private:
  static std::string lane_name(unsigned lane) { return "lanes/" + std::to_string(lane); }
  std::string path_of(unsigned lane) const { return directory_ + "/" + lane_name(lane); }
  Fd open_fifo(const std::string& name) const;
  Fd open_end(const std::string& name, int way) const;
  bool is_fifo(const Fd& file, const std::string& name) const;
  bool tell(const std::string& name, char what) const;
  [[noreturn]] void cannot(const char* what, const std::string& name) const;

  std::string directory_;
};

}  // namespace thole::host
