// `thole init --take-back`: by root's word a unit can be claimed anew, whoever holds it.
//
// How this works. What the kernel lists first of all, before the command has done anything that can be seen, is who had the
// unit's nodes. Then these are marked (being_taken): from here on nobody who is honest gets one. Who has a node now
// and had it before is meant: he loses it, and is named, and so are the processes that are seen to run in his claim, for they
// run on. Who has got one between the two, waiting honestly, keeps it: whom the first list does not have, nor another process
// of his user's, who has an account, and with a group membership. Where that list cannot be read to its end, or has hidden a
// line (kernel_locks.hpp), he may have; so may who had it all the time and has changed whom the list names. Root's word takes
// it from either (`--force`).
//
// An instance is kept from everybody by a lock on all of its GPU, too, taken before the GPU was partitioned: that is taken back
// with it. Where nobody has that lock, it is left to `init`, which forgets what is gone.
//
// Marks count while this process lives, and no signal ends it but KILL, with which they end too.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/node_maker.hpp"

namespace thole::host {

// Who had which lock in the file system of a directory when a command began.
struct LocksBefore {
  std::vector<KernelLock> flocks;
  bool whole = false;
  std::uint64_t ticks = 0;                            // whose process has begun since had none by that number
  std::set<std::pair<FileNumber, uid_t>> users;       // who runs the processes that were seen to have one
};
LocksBefore locks_before(const std::string& directory, std::chrono::nanoseconds limit = for_init_to_take);

// A unit whose nodes are made anew, whoever holds them.
struct ToTakeBack {
  std::string unit;
  std::string whole;                                  // of an instance: the name that all of its GPU has as a unit
};

class TakeBack {
 public:
  // Marks the units' nodes, and sees who has them. `limit`: for reading what the kernel lists.
  TakeBack(int directory, const NodeMaker& maker, const std::vector<ToTakeBack>& units, const LocksBefore& before,
           std::chrono::nanoseconds limit = for_init_to_take);
  TakeBack(const TakeBack&) = delete;
  TakeBack& operator=(const TakeBack&) = delete;
  ~TakeBack();

  const ToTakeBack* asked(const std::string& unit) const;   // null: not that one

  // What else each unit needs.
  struct How {
    std::optional<gid_t> group;                       // the only one that may claim
    std::string lost;                                 // who has the lock of a deleted node of the unit; "" nobody
    std::vector<pid_t> inside;                        // what is known to run in claims of the unit
    bool from_anybody = false;                        // nobody is spared
  };
  // False where nothing was taken back: nobody held it, or who does was spared. Says which.
  bool of(const ToTakeBack& asked, const How& how, std::vector<std::string>& said);
  std::vector<std::string> spared_of(const std::string& unit) const;   // after that: nodes that were left to who has them

 private:
  class Uninterrupted;
  struct Taking;

  bool take(const std::string& name, Taking& taking);
  bool had(pid_t pid, const FileNumber& node) const;
  std::set<uid_t> users_before(const std::string& unit) const;
  std::string keepers_of(const std::string& name) const;
  std::string spared(const std::string& name, const std::set<uid_t>& meant, std::optional<gid_t> group) const;
  bool has_it_still(const FileNumber& node, int fd) const;

  int directory_;
  const NodeMaker& maker_;
  const std::vector<ToTakeBack>& units_;
  std::set<std::string> wholes_taken_;
  const LocksBefore& before_;
  std::unique_ptr<Uninterrupted> whole_;
  Fd taking_;
  std::map<std::string, Fd> nodes_, locked_;          // the former are ours now, the latter somebody's
  std::map<std::string, FileNumber> numbers_;
  KernelLocks now_;
  std::map<FileNumber, std::vector<pid_t>> seen_;     // to have them, by their descriptors
};

// A trial lock is held for microseconds; a claim for longer.
bool stays_locked(int fd);

}  // namespace thole::host
