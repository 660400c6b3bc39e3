// `thole init --take-back`: by root's word a unit can be claimed anew, whoever holds it.
//
// How this works. Who has the unit's nodes when init begins is meant: he loses them, and is named, and so are the processes
// that are seen to run in his claim, for they run on. Who has got a node since, waiting honestly, keeps it, and while that
// cannot be told nothing is taken. While init decides the node is marked (layout.hpp, being_taken), so that nobody gets it, and
// no signal ends init but KILL, with which the mark ends too. What the kernel lists (/proc/locks) decides where it is sure to
// name all; else descriptors do too.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/node_maker.hpp"

namespace thole::host {

class TakeBack {
 public:
  // Sees who is meant. `limit`: for reading what the kernel lists, each time.
  TakeBack(int directory, const std::vector<std::string>& units, std::chrono::nanoseconds limit = for_init_to_take);

  TakeBack(const TakeBack&) = delete;
  TakeBack& operator=(const TakeBack&) = delete;
  ~TakeBack();

  bool is_asked(const std::string& unit) const;

  // What each of the unit's nodes needs to be made anew.
  struct How {
    const NodeMaker& maker;
    std::optional<gid_t> group;                       // the only one that may claim
    std::string lost;                                 // who has the lock of a deleted node of the unit; "" nobody
    std::vector<pid_t> inside;                        // what is known to run in claims of the unit
  };
  // False where nothing was taken back: nobody held it, or who does was spared. Says which.
  bool of(const std::string& unit, const How& how, std::vector<std::string>& said);

 private:
  struct Meant {
    std::set<pid_t> processes;
    std::set<uid_t> users;
  };
  struct Holders {
    KernelLocks listed;
    std::map<FileNumber, std::vector<pid_t>> seen;   // by their descriptors

    std::vector<pid_t> seen_of(const FileNumber& node) const {
      const auto found = seen.find(node);
      return found == seen.end() ? std::vector<pid_t>() : found->second;
    }
  };

  Holders holders_of(const std::map<std::string, Fd>& locked);
  bool take(const std::string& name, int node, const Holders& now, const How& how, std::set<pid_t>& had,
            std::vector<std::string>& said);
  bool has_got_it_since(pid_t pid, const std::string& name, int node, std::optional<gid_t> group) const;

  int directory_;
  const std::vector<std::string>& units_;
  std::chrono::nanoseconds limit_;
  Allowance to_look_{for_init_to_take};   // at descriptors, in all
  KernelLocks before_;
  std::map<std::string, Meant> meant_;   // who had which node
  Fd taking_;                            // from the first mark on
};

// All nodes of a unit.
std::vector<std::string> nodes_of(const std::string& unit);

// A trial lock is held for microseconds; a claim for longer.
bool stays_locked(int fd);

}  // namespace thole::host
