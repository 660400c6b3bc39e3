// Whose the runner's seat is, by the kernel.
//
// How this works. The seat is a record lock (fcntl) of the file `runner`. Of the kernel's locks this one belongs to one
// process: no child has it, be it forked a moment ago; it goes with its process, and whoever asks is told whose it is. It goes,
// too, when its owner closes any descriptor of that file. So nobody but what is here opens it, and here it is looked at first
// through a descriptor without access (O_PATH), whose close takes no lock away: the file of a seat that this process keeps is
// never opened again. Earlier builds had a flock instead; a runner takes that as well, and replaces one of them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::host {

// Into `seat`; the file is made when it is missing. Where that is a descriptor of this very file already, nothing is done.
// False: somebody else has it, and `seat` is as it was. Throws Error(unavailable) where the file cannot be opened, or locked.
bool take_seat(const std::string& name, Fd& seat);

// Makes the file when it is missing, and says why it cannot be opened.
void check_seat(const std::string& name);

struct SeatLook {
  enum State {
    missing,                                     // there is no such file
    empty,
    older,                                       // by an earlier build's flock alone: a new runner ends that one
    kept,                                        // by a process that lives
    dying,                                       // … that was killed, and only has to end yet
  } state = missing;
  pid_t pid = 0;                                 // 0 also: in another pid namespace
};
SeatLook look_at_seat(const std::string& name);

// Whether this process has been killed and only has to end yet; also when it has ended.
bool is_dying(pid_t pid);

// Whether the process ends before that; without a time it is waited for. Throws Error(unavailable) without a descriptor for it.
bool ends_by(pid_t pid, std::optional<SteadyTime> deadline);

// Pauses that grow to 50 ms, between looks at what nobody tells of.
class Backoff {
 public:
  void rest();

 private:
  long pause_ns_ = 500'000;
};

}  // namespace thole::host
