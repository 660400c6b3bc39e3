// What `thole init` does: makes or mends a directory of claims while claims live in it.
//
// How this works, in the system's directory. One init at a time has the lock file beside it (root's, 0600: nobody else can
// have it); `alloc` is not waited for, for anybody could hold it. What is there stays; nodes are added, and `devices` is
// replaced when they are all there. A slot whose unit has vanished is given up by deleting its node while init itself has it
// locked, so that nobody holds it then, and whoever locks the deleted one afterwards sees that it has no name. On a change of
// access each node that nobody holds is made anew, because an old descriptor outlives chmod; a held one is closed to newcomers
// and made anew the next time. Nothing is taken from a living holder but by root's word for that unit (take_back).
//
// That a directory is completed is announced first (announced.hpp): from here on nobody claims in a fallback directory, nor
// here, where no `queue` has its name yet. Then the fallbacks are looked at, and who claims there (a lock on a node of one of
// our units; what else is planted there is not asked) stops an init by hand that was not told to go on. Else the `queue` gets
// its name, for good. An init that is ended before has changed nothing for anybody.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/claims/take_back.hpp"
#include "host/state_dir.hpp"

namespace thole::host {

struct InitWish {
  std::optional<gid_t> group;   // only its members may claim; absent: as it is, everybody where there is nothing yet
  bool everybody = false;       // takes a group away; either in the system's directory alone
  bool force = false;           // go on although GPUs are claimed in a fallback directory
  std::vector<ToTakeBack> take_back;    // units whose nodes are made anew, whoever holds them …
  LocksBefore before{};         // … and had them then: when the command began
  // The names of GPUs that the driver does not tell all of: they may have other parts than are listed. Nothing is forgotten
  // then, and none of them is added as a unit beside one that is gone.
  std::set<std::string> untold;
  std::set<std::string> partitioned;    // the names that GPUs had as units whose instances are units now
  bool own_tmpfs = false;       // give the system's directory a file system of its own, where that is safe
};

struct InitReport {
  std::string directory;
  unsigned slots = 0, freed = 0;
  unsigned old_access = 0;            // nodes held, to be made anew by the next init
  unsigned not_taken_back = 0;        // units of which that was asked: nobody held them, or who does was spared
  std::optional<gid_t> group;         // who may claim now; absent: everybody
  std::vector<std::string> cautions;
};

InitReport init_claims(const StateLocation& location, const std::vector<std::string>& units, const InitWish& wish = {});

}  // namespace thole::host
