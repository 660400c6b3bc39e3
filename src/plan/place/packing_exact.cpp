// The comparison of all sets; see packing.hpp. Sets are walked in the order of their members' numbers, so that of equal ones
// the first in PCI order stays. What a candidate's links to the members add up to is kept for each depth of the walk, for the
// candidates that may still come.
#include <algorithm>
#include <limits>

#include "plan/place/packing_totals.hpp"

namespace thole::plan {

namespace {

class AllSets {
 public:
  AllSets(const Pool& pool, const std::vector<Criterion>& order, std::size_t size)
      : pool_(pool), order_(order), size_(size), n_(pool.size()), occupation_(pool), totals_(size + 1),
        gain_((size + 1) * n_), least_((size + 1) * n_, std::numeric_limits<long>::max()) {}

  Members best() {
    Members rest;
    for (std::size_t i = 0; i < n_; ++i) {
      if (pool_.traits[i].must) enter(i, 0);
      else rest.push_back(i);
    }
    open_ = std::move(rest);
    if (chosen_.size() == size_) return sorted(chosen_);
    walk(0);
    return sorted(best_);
  }

 private:
  static Members sorted(Members members) {
    std::sort(members.begin(), members.end());
    return members;
  }

  // Candidates from `from` on are the ones whose links are needed from here on.
  void enter(std::size_t i, std::size_t from) {
    const std::size_t depth = chosen_.size(), here = depth * n_, below = here + n_;
    totals_[depth + 1] = occupation_.with(totals_[depth], i, gain_[here + i], least_[here + i]);
    for (std::size_t j = from; j < n_; ++j) {
      const long score = j == i ? 0 : pool_.links.score(i, j);
      gain_[below + j] = gain_[here + j] + score;
      least_[below + j] = std::min(least_[here + j], score);
    }
    occupation_.enter(i);
    chosen_.push_back(i);
  }

  void leave() {
    occupation_.leave(chosen_.back());
    chosen_.pop_back();
  }

  void walk(std::size_t next) {
    const std::size_t depth = chosen_.size(), missing = size_ - depth;
    for (std::size_t k = next; k + missing <= open_.size(); ++k) {
      const std::size_t i = open_[k];
      if (missing == 1) {
        compare(i);
      } else {
        enter(i, i + 1);
        walk(k + 1);
        leave();
      }
    }
  }

  void compare(std::size_t last) {
    const std::size_t here = chosen_.size() * n_ + last;
    const Totals totals = occupation_.with(totals_[chosen_.size()], last, gain_[here], least_[here]);
    const bool first = merit_.empty();
    if (first) merit_.resize(order_.size());
    for (std::size_t c = 0; c < order_.size(); ++c) {
      const long now = value(order_[c], totals);
      if (!first && now == merit_[c]) continue;
      if (!first && now > merit_[c]) return;
      for (; c < order_.size(); ++c) merit_[c] = value(order_[c], totals);
      best_ = chosen_;
      best_.push_back(last);
    }
  }

  const Pool& pool_;
  const std::vector<Criterion>& order_;
  std::size_t size_, n_;
  Occupation occupation_;
  std::vector<Totals> totals_;                 // by depth
  std::vector<long> gain_, least_;             // by depth and candidate
  Members open_, chosen_, best_;
  std::vector<long> merit_;                    // of best_, in the order of the criteria
};

}  // namespace

bool few_enough_to_compare(std::size_t candidates, std::size_t size) {
  size = std::min(size, candidates - std::min(size, candidates));
  std::size_t sets = 1;
  for (std::size_t i = 1; i <= size; ++i) {
    sets = sets * (candidates - size + i) / i;  // exact: a product of i factors in a row holds i!
    if (sets > most_sets) return false;
  }
  return true;
}

Members best_of_all(const Pool& pool, const std::vector<Criterion>& order, std::size_t size) {
  return AllSets(pool, order, size).best();
}

}  // namespace thole::plan
