#include "app/queue/lane_claim.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/new_end.hpp"
#include "base/ours.hpp"
#include "base/stream.hpp"

namespace thole::app {
namespace {

constexpr Seconds not_worth_telling{1};

}  // namespace

void LaneClaim::hold(Acquired acquired, std::optional<WallTime> until, const LaneDoorSpec& door) {
  acquired_ = std::move(acquired);
  told_ = until;
  if (!door.make) return;
  const auto obey = [this, as_told = door.as_told, extend = door.extend](std::optional<WallTime> end) {
    if (!end || !amend(as_told(*end))) return false;
    extend(*end);
    return true;
  };
  door_ = open_door(door.make, site_, acquired_, until, door.caution, door.is_ending, obey);
}

bool LaneClaim::amend(const EndAsTold& end) {
  port::ClaimStore& store = acquired_.store(site_);
  if (!end.is_hidden) {
    const bool is_recorded = amend_end(store, site_, end_of_claim(acquired_), end.until);
    if (is_recorded) told_ = end.until;
    return is_recorded;
  }
  check_hidden_end(store, site_, end_of_claim(acquired_), end.earlier, end.until);
  return true;
}

void LaneClaim::let_go() {
  acquired_.claim.release();
  if (door_) door_->let_go();
}

void LaneClaim::ends_at(std::optional<WallTime> until) {
  if (!is_held()) return;
  if (until && told_ && *until >= *told_ && *until - *told_ < not_worth_telling) return;
  if (!until && !told_) return;
  declare_end(site_, acquired_, door_.get(), until);
  told_ = until;
}

bool LaneClaim::may_end_at(std::optional<WallTime> until) {
  return !is_held() || app::may_end_at(acquired_.store(site_), site_, acquired_, until);
}

bool LaneClaim::is_wanted() const {
  if (!is_held()) return false;
  return !std::ranges::all_of(acquired_.store(site_).wanted_by(acquired_.claim), is_of_our_session);
}

bool LaneClaim::is_asked() const { return door_ && is_readable(door_->fd()); }

}  // namespace thole::app
