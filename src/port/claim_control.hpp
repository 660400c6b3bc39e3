// Port: the door to a claim that some process keeps:
// its socket, those who ask there, and the holder of a claim without a command.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "port/claim_store.hpp"
#include "port/processes.hpp"

namespace thole::port {

// No keeper is there, as far as is seen from here: none has a door in the claim's directory, or (`killed`) nobody is behind it
// any more (of ErrorCode::unavailable).
struct NobodyToAsk : Error {
  NobodyToAsk(Error error, bool was_killed) : Error(std::move(error)), killed(was_killed) {}
  bool killed;
};

// What the keeper of a claim says about it.
struct ClaimAbout {
  std::string id;
  pid_t pid = 0;                         // the keeper
  bool holder = false;                   // a claim without a command; else the supervisor of one
  std::optional<WallTime> until;
};

// The keeper's side. While it lives, requests wait on fd() (pollable) until serve() answers them.
// Destroying it closes the door.
class ClaimDoor {
 public:
  virtual ~ClaimDoor() = default;
  virtual int fd() const = 0;
  virtual Order serve() = 0;             // answers what is there; gives what the keeper has to obey
  virtual void ends_at(std::optional<WallTime> until) = 0;   // the declared end is this one now
  virtual void say_ending(const Ending& ending) = 0;   // to those who ask what the end waits for
  virtual void let_go() = 0;             // the locks are free now: answers those who asked for the release
};

struct DoorSpec {
  std::string directory;                 // the claim's, made (0700) when missing
  ClaimAbout about;
  std::vector<int> locks;                // what `descriptors` hands out
  std::function<bool(std::optional<WallTime>)> amend;   // records a new end before it is confirmed; false when it cannot
  std::function<bool()> is_ending;       // too late for a new end; may be empty
  std::function<bool(const std::string& id)> lives;     // a claim of ours; asked where a killed keeper left its directory
};

// Throws Error of what is no lock of the claim.
using CheckLocks = std::function<void(std::vector<Fd>& received)>;

// A claim without a command: how long it is held, besides its declared end (DoorSpec::about.until, known once it starts).
struct HoldSpec {
  std::optional<pid_t> process;          // ends with this one: an adopted process, or the calling shell
  bool for_shell = false;                // that is one, and what it starts runs inside the claim
  // Tells somebody of the claim, by its message. Until this has returned the claim is the caller's: it is given back when this
  // throws, when the caller dies in it, and when it takes too long: whoever is to read may never do.
  std::function<void(const std::string& message)> tell = {};
};

// Whom the holder acquires for: the process that called hold().
struct HoldCaller {
  int gone = -1;                         // readable once that one was interrupted, or has ended: give up
  int process = -1;                      // readable once that one has ended that the claim is for: give up, too
  std::function<bool()> is_stopped;      // ... stands still (Ctrl-Z): its turn goes to others until it goes on
};

// What the acquiring function gives to the holder.
struct ToHold {
  Claim claim;
  DoorSpec door;
  std::string message;                   // for the caller of hold()
  // The end came, the units were let go, and the adopted process still runs: records it, unless the claim goes on elsewhere.
  // Recorded, the holder keeps the note until that one ends.
  std::function<bool()> overdue;         // may be empty
  std::function<void()> ending;          // the claim is about to be let go; may be empty
  std::function<bool()> outer_lives;     // the claim around an inner one, with which that ends; empty: there is none
};

// Where the keeper of a claim is asked, and what people call the claim.
struct ClaimAddress {
  std::string id;                        // "outer/inner" for one within another
  std::string directory;
  uid_t owner = static_cast<uid_t>(-1);  // -1: as whose the directory is
  pid_t pid = 0;                         // of its keeper, as it is noted; 0: not known
};

// The keeper's side of a claim.
class ClaimKeeping {
 public:
  virtual ~ClaimKeeping() = default;

  virtual std::unique_ptr<ClaimDoor> open(DoorSpec spec) = 0;

  // Starts a process of its own that acquires (so that the kernel names it as the taker) and holds; returns its message once
  // the claim is made and told. `acquire` runs in that process and must give up when its caller has; what it throws is thrown
  // here.
  virtual std::string hold(const HoldSpec& spec, const std::function<ToHold(const HoldCaller& caller)>& acquire) = 0;
};

// The other side: requests are answered by the keeper only to the same user (and root). They throw Error(unavailable) when
// nobody keeps the claim or its keeper does not answer (a stopped one).
class ClaimAsking {
 public:
  virtual ~ClaimAsking() = default;

  virtual ClaimAbout describe(const ClaimAddress& claim) = 0;
  virtual void release(const ClaimAddress& claim) = 0;                 // returns when the keeper says that it let go
  virtual std::optional<Ending> ending(const ClaimAddress& claim) = 0;   // what a release waits for; nothing: no command

  // How to end what was started inside this claim of this user: "\n  kill 1234  # python train.py" for each process.
  virtual std::string ways_to_end(const std::string& claim, uid_t owner) = 0;
  virtual void extend(const ClaimAddress& claim, WallTime until) = 0;

  // Copies of the locks, for `run --in`; throws what `check` throws of them. Those of another user's keeper are received and
  // checked by a child process.
  virtual std::vector<Fd> descriptors(const ClaimAddress& claim, const CheckLocks& check) = 0;
};

class ClaimControl : public ClaimKeeping, public ClaimAsking {};

}  // namespace thole::port
