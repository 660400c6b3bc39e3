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

void LaneClaim::hold(Acquired acquired, std::optional<WallTime> until, const DoorMaker& make_door,
                     std::function<bool()> is_ending, const std::function<void(const std::string&)>& caution) {
  acquired_ = std::move(acquired);
  told_ = until;
  if (make_door) door_ = open_door(make_door, site_, acquired_, until, caution, std::move(is_ending));
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

port::Order LaneClaim::serve() {
  const port::Order order = door_->serve();
  if (order.until) told_ = order.until;
  return order;
}

}  // namespace thole::app
