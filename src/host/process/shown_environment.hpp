// With which environment a process was started, as /proc tells it: the claim and the task that it is of.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

// What it was started with. `untold`: it may live, and what it shows cannot be told: its environment is closed to us, its
// memory is locked, or it is at its execve(2) for longer than is waited for (both ETIMEDOUT).
enum class Word { there, missing, untold };
struct ShownEnvironment {
  std::string words;                 // each with its end
  int why = 0;                       // the errno for which they are not told; 0: these are all

  bool is_untold() const;
  Word look_for(std::string_view beginning) const;   // a word that begins so
  std::string word(std::string_view name) const;     // behind "NAME="; empty where there is none
};
ShownEnvironment environment_of(pid_t pid);

// Whether the process was started as part of a task of the queue, or by one that was: THOLE_TASK in its environment begins so.
bool carries_mark(pid_t pid, const std::string& mark);

// Processes of this user that were started within this claim: THOLE_CLAIM says so in their environment. Of whom nothing can be
// told, those whose parent, process group or session is of it, or the claim's keeper (0: nobody). A stopped look has some.
std::vector<ProcessStat> started_in_claim(const std::string& id, uid_t user, pid_t keeper, const Stop& stop);

}  // namespace thole::host
