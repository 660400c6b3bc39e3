// The GPUs of `map`: one lane's after the other's, claimed aside, so that no task waits for a look at the driver.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "app/claim/claim_variables.hpp"
#include "app/claim/run.hpp"
#include "base/aside.hpp"
#include "base/bell.hpp"

namespace thole::app {

// What one lane has: GPUs, and what its tasks get with them.
struct LaneGain {
  Acquired acquired;
  ClaimVariables variables;
  std::optional<Binding> binding;      // one rank for each of the tasks that share the lane
  std::size_t most_units = 0;          // of this machine that could ever do: no use to line up for more
};

// The events are told from there: waiting, caution, got and binding. Nobody else may use site.observer meanwhile.
class LaneClaims {
 public:
  LaneClaims(Site& site, BindSite bind, Aside& aside, const RunRequest& wanted, unsigned tasks_at_once,
             const RunEvents& events);
  ~LaneClaims() { withdraw(); }
  LaneClaims(const LaneClaims&) = delete;
  LaneClaims& operator=(const LaneClaims&) = delete;

  int fd() const { return work_.fd(); }        // readable when take() has something
  bool asked() const { return asked_; }
  void ask();                                    // for one lane more; the limit of the wait counts for the first one only
  void withdraw();                               // leaves the line; what has just been won is given back

  // What became of ask(), once fd() is readable. Throws what acquire throws.
  LaneGain take();

 private:
  void claim(const model::Request& request);
  LaneGain gained(const model::Request& request, const AcquireOptions& options);

  Site& site_;
  BindSite bind_;
  Aside& work_;
  const RunRequest& wanted_;
  unsigned tasks_at_once_;
  const RunEvents& events_;
  Bell cancel_;
  bool first_ = true;
  std::optional<LaneGain> gain_;       // made aside; ours once that has ended
  std::optional<model::Request> lasting_;   // as it was asked, at every look; made aside, too, as the next three
  std::optional<Allotment> allotted_;       // by the first one
  std::optional<std::set<std::string>> had_;     // what did then
  std::size_t most_units_ = 0;
  bool asked_ = false;
};

}  // namespace thole::app
