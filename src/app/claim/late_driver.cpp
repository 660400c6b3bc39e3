// How this works. What is listed may not be all that the library will list, nor be numbered as it will number, so nothing is
// taken by it; but whoever comes later is to find a ticket. The rule is asked as for any other waiter, so that those behind are
// woken as usual. All sleep is in the ticket, where a nudge is heard, and short: no GPU is idle for long once it answers.
#include "app/claim/late_driver.hpp"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "app/claim/choice.hpp"
#include "app/claim/entering.hpp"
#include "app/claim/selection.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

constexpr Millis first_pause{100}, longest_pause{1'000};   // between looks
constexpr Millis shortest_look{200};                       // for one that comes at the end of the wait

// One that stands in line, or waits beside it where it cannot.
class LateWait {
 public:
  LateWait(Site& site, port::ClaimStore& store, const AcquireOptions& options, const OuterClaim* within, const Wish& wish)
      : options_(options), store_(store), request_(wish.request), lasting_(wish.lasting),
        keys_(keys_of(site, wish.eligible)), takes_part_(!reuses(within, request_)),
        choice_(site, lasting_, in_use(within, request_)) {
    choice_.set_eligible(wish.eligible);
  }

  // False: nothing but the line has moved.
  bool sleep(Millis pause, std::optional<SteadyTime> deadline) {
    if (!stand(pause)) {
      if (any_ready(options_.cancel, pause)) wait_interrupted();
      return true;
    }
    const port::Wake woken = ticket_->sleep(options_.cancel, deadline);
    if (woken == port::Wake::other_fd) wait_interrupted();
    return woken != port::Wake::turn && woken != port::Wake::release;
  }

  void has_looked() { choice_.look_again(); }

  // Its ticket, if that is one for so many of these units.
  std::unique_ptr<port::Ticket> ticket_for(const std::vector<std::string>& keys, unsigned count) {
    const auto stood_for = [&](const std::string& key) { return std::ranges::find(keys_, key) != keys_.end(); };
    if (!ticket_ || count != request_.gpus || std::ranges::count_if(keys, stood_for) < static_cast<std::ptrdiff_t>(count))
      return nullptr;
    ticket_->want(keys);
    return std::move(ticket_);
  }

 private:
  bool stand(Millis pause) {
    if (!takes_part_) return false;
    try {
      if (!ticket_) ticket_ = store_.enter(entry_for(request_, options_, keys_));
      (void)ticket_->step([&](const auto& queue, auto mine, const auto& wants, auto now) -> model::Decision {
        if (options_.stands_still && options_.stands_still()) return model::Refuse{};
        model::Decision decision = choice_(queue, mine, wants, now);
        auto* decided = std::get_if<model::Wait>(&decision);
        model::Wait wait = decided ? std::move(*decided) : model::Wait{};   // whether it could be met is told by the driver
        wait.look_again = std::min(wait.look_again.value_or(pause), pause);
        return wait;
      });
      return std::holds_alternative<model::Wait>(ticket_->decision());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      ticket_.reset();                           // who enters for what there is then is told why
      return false;
    }
  }

  const AcquireOptions& options_;
  port::ClaimStore& store_;
  const model::Request request_, lasting_;
  const std::vector<std::string> keys_;
  const bool takes_part_;
  Choice choice_;
  std::unique_ptr<port::Ticket> ticket_;
};

}  // namespace

std::unique_ptr<port::Ticket> await_driver(Site& site, port::ClaimStore& store, const model::Request& asked,
                                           const AcquireOptions& options, const OuterClaim* within, Wish& wish) {
  if (options.caution) options.caution(fmt::format("the driver has not answered about {} yet: waiting for it", wish.late));
  LateWait late(site, store, options, within, wish);
  for (Millis pause = first_pause; !wish.late.empty();) {
    const auto at_most = [&](Millis least, Millis most) {
      if (!wish.deadline) return most;
      return std::clamp(std::chrono::ceil<Millis>(*wish.deadline - site.clock.steady()), least, most);
    };
    if (!late.sleep(at_most(Millis{0}, pause), wish.deadline)) continue;
    site.observer.look(at_most(std::min(shortest_look, site.patience), site.patience), question_for(asked));
    late.has_looked();
    wish = wish_for(site, asked, options, within, wish.deadline, true);
    pause = std::min(pause * 2, longest_pause);
  }
  return late.ticket_for(keys_of(site, wish.eligible), wish.request.gpus);
}

}  // namespace thole::app
