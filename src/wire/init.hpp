// `thole init`, and the names of machines: small things that fronts need from adapters.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "wire/wire.hpp"

namespace thole::wire {

struct InitWish {
  std::string group;       // only its members may claim; "" = what the site's file says, else as it is
  bool everybody = false;  // takes the group away
  std::vector<std::string> take_back;   // GPUs as --on names them, made claimable anew whoever holds them
  bool force = false;      // go on although GPUs are claimed in a fallback directory
};

struct InitReport {
  std::string directory;
  std::string group;       // whose members may claim; "" = everybody
  unsigned units = 0;      // that have nodes now
  unsigned freed = 0;      // slots of vanished ones
  unsigned old_access = 0; // nodes held by somebody, closed to newcomers, to be made anew by the next init
  unsigned not_taken_back = 0;   // GPUs of which that was asked: nobody held them, or who does was spared
  std::vector<std::string> cautions;
};

// Makes or mends the state directory for the units of this machine. A group given (or taken away) by hand for the machine's own
// directory is written to the site's file, from which the next start of the machine has it.
// Throws Error(usage) for a group or a GPU that does not exist, Error(unavailable) where that is not ours to do.
InitReport init(Wire& wire, const InitWish& wish);

// The group's number. Throws Error(usage) for one that does not exist.
gid_t group_id(const std::string& name);

// The simulated machines that are shipped.
std::vector<std::string> machine_names(const Settings& settings);

}  // namespace thole::wire
