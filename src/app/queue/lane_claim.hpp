// The claim of a lane: what of it is told to others as its tasks come and go, and its door.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/claim/acquire.hpp"
#include "app/claim/door.hpp"
#include "base/time.hpp"
#include "port/claim_control.hpp"
#include "port/processes.hpp"

namespace thole::app {

// What an end that is asked for comes to for others: all that runs has ended then.
struct EndAsTold {
  std::optional<WallTime> until;
  // Something is paused: others are told no end. Then both are what they would be if all went on now.
  bool is_hidden = false;
  std::optional<WallTime> earlier{};             // without what is asked for
};

// Of a lane's door. `is_ending`: of what runs nothing can be given a new end.
struct LaneDoorSpec {
  const DoorMaker& make;                         // empty: there is no door
  std::function<bool()> is_ending;
  std::function<EndAsTold(WallTime)> as_told;
  std::function<void(WallTime)> extend;          // what runs, before who asked is told so: we may be killed right after that
  const std::function<void(const std::string&)>& caution;
};

class LaneClaim {
 public:
  explicit LaneClaim(Site& site) : site_(site) {}
  ~LaneClaim() { let_go(); }
  LaneClaim(const LaneClaim&) = delete;
  LaneClaim& operator=(const LaneClaim&) = delete;

  void hold(Acquired acquired, std::optional<WallTime> until, const LaneDoorSpec& door);   // `until`: as the line was told it
  const Acquired& acquired() const { return acquired_; }
  bool is_held() const { return acquired_.claim.is_held(); }
  void let_go();                                 // free before anybody is told so

  // Others plan with the end of the claim, and that moves on with each task. Nobody knows it: nothing.
  void ends_at(std::optional<WallTime> until);

  bool may_end_at(std::optional<WallTime> until);   // without putting off who has let it go first
  bool is_wanted() const;                        // by who is not of our session, which is that of our runner

  int door_fd() const { return door_ ? door_->fd() : -1; }   // readable when somebody asks
  bool is_asked() const;
  port::Order serve() { return door_->serve(); }   // of an end that was asked for others know by then

 private:
  bool amend(const EndAsTold& end);

  Site& site_;
  Acquired acquired_;
  std::optional<WallTime> told_;                 // as others know it
  std::unique_ptr<port::ClaimDoor> door_;
};

}  // namespace thole::app
