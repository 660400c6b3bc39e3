// What the commands of a claim are told of its GPUs: once, and anew for what begins later.
//
// How this works. GPUs are named by numbers where those are certain, and a GPU that has left the driver's list since, or come
// back, gives them to others. So the list is seen anew before something begins: when what the numbers go by has changed, and
// where that does not tell of every change, now and then. What a look does not tell for certain goes by names that no other GPU
// has; where there are none, nothing begins.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/observer.hpp"
#include "base/time.hpp"
#include "plan/environment/environment.hpp"

namespace thole::app {

// The units of these keys as they are numbered now, by what the observer has seen last. Throws DriverTrouble where that does
// not list one of them.
std::vector<std::size_t> units_now(const Observer& observer, const std::vector<std::string>& keys);

// The variables for a job with this claim, by what the observer has seen last. Throws DriverTrouble where that does not list a
// GPU of it.
plan::Variables variables(const Observer& observer, const Acquired& acquired, const model::Request& request, plan::Ids ids);

// The same by names that are never another GPU's; nothing where one of them goes by number only.
std::optional<plan::Variables> lasting_variables(const Observer& observer, const Acquired& acquired,
                                                 const model::Request& request);

// When something was told of the list, and by which numbering.
struct Told {
  std::string numbering;
  SteadyTime at{};
};

// The driver's list as it is now, for all claims of a command. Looks take at most a fortieth of the time.
class ListNow {
 public:
  explicit ListNow(const Site& site) : site_(site) {}

  void look(const Told& last);                     // where that is due
  unsigned looks() const { return looks_; }        // how many there have been
  SteadyTime looked() const { return looked_; }    // the last time
  const Observer* seen() const;                    // then; null when it could not be seen

 private:
  static constexpr Millis least_pause{1'000};

  const Site& site_;
  unsigned looks_ = 0;
  bool failed_ = false;
  std::unique_ptr<Observer> seen_;
  std::string numbering_;                          // before that look
  SteadyTime looked_{};
  Millis pause_ = least_pause;
};

class ClaimVariables {
 public:
  ClaimVariables() = default;
  ClaimVariables(const Site& site, const Acquired& acquired, const model::Request& request, plan::Ids ids);

  const plan::Variables& now() const { return variables_; }

  // For what begins now. True when they are others. Throws DriverTrouble where one of the GPUs was taken back by root, is not
  // listed or cannot be used, or where nobody knows which number it has.
  bool renew(ListNow& list, const Acquired& acquired);

 private:
  model::Request request_;
  plan::Ids ids_ = plan::Ids::automatic;
  Told told_;
  unsigned as_of_ = 0;                             // looks
  plan::Variables variables_;
  std::optional<plan::Variables> by_name_;         // whatever the numbers are; absent: there is no such name of one of them
};

}  // namespace thole::app
