// The search where there are too many sets to compare them all; see packing.hpp.
#include <algorithm>
#include <array>
#include <limits>

#include "plan/place/packing_totals.hpp"

namespace thole::plan {

namespace {

using Merit = std::array<long, 8>;

// A set that grows by one candidate at a time; what the next one would do to it is known without looking at the set again.
class Growing {
 public:
  Growing(const Pool& pool, const std::vector<Criterion>& order)
      : pool_(pool), order_(order), has_(pool.size()), gain_(pool.size()),
        least_(pool.size(), std::numeric_limits<long>::max()), occupation_(pool) {}

  bool has(std::size_t i) const { return has_[i]; }

  void add(std::size_t i) {
    totals_ = occupation_.with(totals_, i, gain_[i], least_[i]);
    has_[i] = true;
    occupation_.enter(i);
    for (std::size_t j = 0; j < pool_.size(); ++j) {
      if (j == i) continue;
      const long score = pool_.links.score(i, j);
      gain_[j] += score;
      least_[j] = std::min(least_[j], score);
    }
  }

  Merit merit() const { return merit_of(totals_); }
  Merit merit_with(std::size_t i) const { return merit_of(occupation_.with(totals_, i, gain_[i], least_[i])); }

 private:
  Merit merit_of(const Totals& totals) const {
    Merit merit{};
    for (std::size_t c = 0; c < order_.size(); ++c) merit[c] = value(order_[c], totals);
    return merit;
  }

  const Pool& pool_;
  const std::vector<Criterion>& order_;
  std::vector<bool> has_;
  std::vector<long> gain_, least_;             // what each candidate's links to the set add up to, and the weakest of them
  Occupation occupation_;
  Totals totals_;
};

// For each candidate the first one that nothing tells it apart from.
std::vector<std::size_t> classes_of(const Pool& pool) {
  const auto alike = [&](std::size_t a, std::size_t b) {
    const Traits &x = pool.traits[a], &y = pool.traits[b];
    if (x.last_resort != y.last_resort || x.instance != y.instance || x.must != y.must || x.node != y.node ||
        x.package != y.package || x.group != y.group || x.row != y.row)
      return false;
    for (std::size_t other = 0; other < pool.size(); ++other)
      if (other != a && other != b && pool.links.score(a, other) != pool.links.score(b, other)) return false;
    return true;
  };
  std::vector<std::size_t> first(pool.size());
  for (std::size_t i = 0; i < pool.size(); ++i) {
    first[i] = i;
    for (std::size_t j = 0; j < i && first[i] == i; ++j)
      if (first[j] == j && alike(j, i)) first[i] = j;
  }
  return first;
}

class Search {
 public:
  Search(const Pool& pool, const std::vector<Criterion>& order, std::size_t size)
      : pool_(pool), order_(order), size_(size), class_(classes_of(pool)) {
    for (std::size_t i = 0; i < pool.size(); ++i)
      if (pool.traits[i].must) must_.push_back(i);
  }

  Members best() {
    constexpr std::size_t improved = 8;        // of the sets grown, as many are worth the exchanges
    std::vector<std::pair<Merit, Members>> grown;
    if (must_.empty()) {
      for (std::size_t start = 0; start < pool_.size(); ++start)
        if (class_[start] == start) grown.push_back(grow({start}));
    } else {
      grown.push_back(grow(must_));
    }
    std::sort(grown.begin(), grown.end());
    if (grown.size() > improved) grown.resize(improved);
    for (auto& [merit, set] : grown) improve(merit, set);
    return std::min_element(grown.begin(), grown.end())->second;
  }

 private:
  // The candidate that does most for the set; one of each class is asked.
  std::size_t next_for(const Growing& set, Merit& merit) const {
    std::size_t best = pool_.size();
    std::vector<bool> asked(pool_.size());
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      if (set.has(i) || asked[class_[i]]) continue;
      asked[class_[i]] = true;
      if (const Merit now = set.merit_with(i); best == pool_.size() || now < merit) merit = now, best = i;
    }
    return best;
  }

  std::pair<Merit, Members> grow(Members members) const {
    Growing set(pool_, order_);
    for (const std::size_t member : members) set.add(member);
    Merit merit = set.merit();
    while (members.size() < size_) {
      members.push_back(next_for(set, merit));
      set.add(members.back());
    }
    std::sort(members.begin(), members.end());
    return {set.merit(), members};
  }

  // Exchanges one member for another candidate as long as that helps.
  void improve(Merit& merit, Members& members) const {
    for (bool better = size_ > 1; better;) {
      better = false;
      for (std::size_t x = 0; x < members.size() && !better; ++x) {
        if (pool_.traits[members[x]].must) continue;
        Growing rest(pool_, order_);
        for (std::size_t y = 0; y < members.size(); ++y)
          if (y != x) rest.add(members[y]);
        Merit now{};
        const std::size_t other = next_for(rest, now);
        if (!(now < merit)) continue;
        members[x] = other;
        std::sort(members.begin(), members.end());
        merit = now;
        better = true;
      }
    }
  }

  const Pool& pool_;
  const std::vector<Criterion>& order_;
  std::size_t size_;
  std::vector<std::size_t> class_;
  Members must_;
};

}  // namespace

Members best_grown(const Pool& pool, const std::vector<Criterion>& order, std::size_t size) {
  return Search(pool, order, size).best();
}

}  // namespace thole::plan
