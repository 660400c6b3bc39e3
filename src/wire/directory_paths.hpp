// Where everything lies that thole keeps: each directory is computed here and nowhere else, for the program, the library and
// the queue alike, from the settings and the user alone.
//
// What must be found by all processes of a user lies in his personal directory: the inside of his claims, their sockets, the
// claims of his simulated machines, what the probes remember. It is /tmp/thole-UID (host/own_directory.hpp) whatever the
// environment says. Not in $XDG_RUNTIME_DIR: cron, su, containers and some ssh sessions have none, so that two processes of
// one user would keep two books of one machine; and logind deletes it at the last logout, under commands that go on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/own_directory.hpp"
#include "wire/settings.hpp"

namespace thole::host {
struct QueuePaths;
}

namespace thole::wire {

class DirectoryPaths {
 public:
  explicit DirectoryPaths(const Settings& settings);

  // The caller's personal directory, made where there is none: throws Error(unavailable).
  std::string personal() const;
  std::optional<std::string> find_personal() const;   // makes nothing
  host::ExpectedDirectory expected_personal() const;  // the same, or where it would be made
  std::string plain_personal() const;                 // what it is called before others have taken that name
  std::string personal_or_none() const;               // "" where none can be had: what is only remembered there is not needed

  // Of a new claim of the caller; and of any claim there is, in the directory of its owner.
  std::string new_claim(const std::string& claim_id) const;
  std::string find_claim(const std::string& claim_id, uid_t owner) const;

  // A simulated machine's directory in the personal one, and in the queue's: one of its own for each machine. A shipped machine
  // or a shorthand goes by its name, wherever this thole is installed; a file of the user's by its path.
  std::string machine_name(const std::string& file) const;

  host::QueuePaths queue(const std::string& machine_name) const;

  // Every directory of the caller's in which thole keeps things; some may not be there.
  std::vector<std::string> all_own() const;

  // Where jupyter_core looks for the caller's kernels. Throws Error(usage) when that is not known.
  std::string jupyter_kernels() const;

 private:
  std::string machine_, program_, state_dir_, queue_dir_, personal_dir_, state_home_, kernels_;
  std::string no_kernels_ = "HOME is not set";
  std::string no_home_;   // why HOME is none; "" where it is one or is not set
  uid_t uid_;
};

}  // namespace thole::wire
