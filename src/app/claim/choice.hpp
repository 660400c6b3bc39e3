// The rule an acquisition shows to the claim store: one request bound to what was seen of the machine.
//
// How this works. A unit nobody has claimed is judged by what the driver shows on it (plan::judge): for this request, and as
// it looks to one that asks for nothing, by which the rule reckons what others can have. A claimed one is judged by its health
// alone, since its use is its owner's; and so is one that was seen claimed and has been let go since, until a look some seconds
// later, or under our own lock (trust_next_look): what an earlier one saw there may have been its owner's. But who has only
// just claimed what was used by nobody's claim before may be about to see that himself, and to give it back. And what is seen
// for the first time may be of a claim that has just ended, of which a newcomer knows nothing (is_unsure).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/selection.hpp"
#include "plan/place/free.hpp"
#include "plan/place/place.hpp"
#include "plan/turn/grace.hpp"
#include "plan/turn/turn.hpp"

namespace thole::app {

class Choice {
 public:
  Choice(const Site& site, const model::Request& request, InUse around = {});

  void look_again();                            // after observer.look(): new verdicts, and units as they are numbered now
  void trust_next_look();                       // the chosen units are locked by us now
  void set_eligible(std::vector<std::size_t> eligible) { eligible_ = std::move(eligible); }   // units, ascending

  // Units by key that nobody can have now, and why not.
  void avoid(std::map<std::string, std::string> whys);
  bool avoids_any() const { return !avoided_.empty(); }

  // Whether somebody before us may be kept by use that has only just been seen: it may be that of a claim that has ended.
  bool is_unsure() const { return is_unsure_; }

  // Whether those in line have to be judged by the load on GPUs (--beside), and the last look did not ask for it.
  bool lacks_load() const { return lacks_load_; }

  bool ordered() const { return ordered_; }                                 // was the line to be seen?
  const std::vector<std::size_t>& eligible() const { return eligible_; }
  const std::vector<std::size_t>& chosen() const { return chosen_; }        // units of the last Take that are still there
  const std::string& explain() const { return explain_; }                   // why these
  const plan::Verdict& verdict(std::size_t unit) const { return verdicts_[unit]; }

  // A chosen unit that had other sharers: the budgets admitted us, the use that is seen there is theirs.
  bool has_sharers(std::size_t unit) const;

  // Processes without a claim on these slots whose end could free them.
  std::vector<pid_t> strangers(const model::SlotSet& slots) const;

  // What would be chosen if nobody had any of the healthy ones that would do.
  std::optional<plan::Placement> if_all_were_free() const;

  // The rule.
  model::Decision operator()(const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants,
                             WallTime now);

 private:
  void number_anew();
  std::string my_user() const;
  void map_slots(const model::QueueView& queue);
  void fill_states(const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants);
  std::uint64_t unclaimed_beside(const model::Unit& unit, const model::SlotView& slot) const;
  plan::Verdict to_anybody(const model::Unit& unit, const std::vector<pid_t>& own) const;
  void note_claimed(const model::QueueView& queue);
  void note_used();
  std::optional<std::vector<unsigned>> choose(const model::QueueView& queue, const model::SlotSet& free);

  const Site& site_;
  const model::Request& request_;
  const InUse around_;
  std::vector<std::string> keys_;                        // by unit, as of the last look
  std::vector<plan::Verdict> verdicts_;                  // by unit
  std::vector<plan::Verdict> to_anybody_;                // as a request that asks for nothing sees them
  std::vector<std::size_t> eligible_;                    // units, ascending
  std::map<std::string, std::string> avoided_;           // by key: why
  std::vector<std::optional<std::size_t>> unit_of_;      // by slot, of the last queue seen
  std::vector<plan::SlotState> states_;                  // by slot
  // By others, as seen at each step, by key.
  struct Claimed {
    std::optional<SteadyTime> since, last;               // the former only while it is
    bool is_free = false;                                // at the last step
    bool looks_used = false;                             // since: to be confirmed by the next step
    bool was_used = false;                               // without a claim
    std::optional<SteadyTime> used_since;                // by whomever, as far as looks tell
  };
  std::map<std::string, Claimed> claimed_;
  bool is_in_wake(const Claimed& seen) const;
  bool is_its_owners(const model::SlotView& slot) const;
  bool may_be_ending(const model::SlotView& slot) const;
  SteadyTime looked_{}, noted_{};                        // at the GPUs, at the claims
  bool lacks_load_ = false, is_unsure_ = false;
  std::vector<std::size_t> chosen_;
  std::vector<std::size_t> beside_;                      // units with holders when we chose, ascending
  std::string explain_;
  bool ordered_ = true;
  plan::Grace grace_;                                    // with those before me
};

}  // namespace thole::app
