// The search among more than 16 candidates; see packing.hpp.
#include <algorithm>
#include <array>
#include <limits>

#include "plan/packing.hpp"

namespace thole::plan {

namespace {

using Merit = std::array<long, 8>;

// A set that grows by one candidate at a time; what the next one would do to it is known without looking at the set again.
class Growing {
 public:
  Growing(const Pool& pool, const std::vector<Criterion>& order)
      : pool_(pool), order_(order), has_(pool.size()), gain_(pool.size()),
        least_(pool.size(), std::numeric_limits<long>::max()), on_node_(pool.size() + 1), on_package_(pool.size() + 1),
        taken_(pool.groups.size()) {}

  bool has(std::size_t i) const { return has_[i]; }

  void add(std::size_t i) {
    const Traits& traits = pool_.traits[i];
    state_ = after(i);
    has_[i] = true;
    ++on_node_[static_cast<std::size_t>(traits.node)];
    ++on_package_[static_cast<std::size_t>(traits.package)];
    ++taken_[traits.group];
    for (std::size_t j = 0; j < pool_.size(); ++j) {
      if (j == i) continue;
      const long score = pool_.links.score(i, j);
      gain_[j] += score;
      least_[j] = std::min(least_[j], score);
    }
  }

  Merit merit() const { return merit_of(state_); }
  Merit merit_with(std::size_t i) const { return merit_of(after(i)); }

 private:
  struct State {
    long last_resort = 0, instances = 0, inside = 0, weakest = std::numeric_limits<long>::max(), rows = 0;
    long nodes = 0, packages = 0, broken = 0;
  };

  static bool is_broken(const Group& group, std::size_t taken) {
    const std::size_t left = group.free - taken;
    return left > 0 && left < group.total;
  }

  State after(std::size_t i) const {
    const Traits& traits = pool_.traits[i];
    const Group& group = pool_.groups[traits.group];
    const std::size_t taken = taken_[traits.group];
    State next = state_;
    next.last_resort += traits.last_resort;
    next.instances += traits.instance;
    next.inside += gain_[i];
    next.weakest = std::min(next.weakest, least_[i]);
    next.rows += traits.row;
    next.nodes += on_node_[static_cast<std::size_t>(traits.node)] == 0;
    next.packages += on_package_[static_cast<std::size_t>(traits.package)] == 0;
    next.broken += is_broken(group, taken + 1) - is_broken(group, taken);
    return next;
  }

  Merit merit_of(const State& state) const {
    Merit merit{};
    for (std::size_t c = 0; c < order_.size(); ++c) {
      switch (order_[c]) {
        case Criterion::last_resort: merit[c] = state.last_resort; break;
        case Criterion::instances: merit[c] = state.instances; break;
        case Criterion::weakest: merit[c] = -state.weakest; break;
        case Criterion::inside: merit[c] = -state.inside; break;
        case Criterion::nodes: merit[c] = state.nodes; break;
        case Criterion::packages: merit[c] = state.packages; break;
        case Criterion::left: merit[c] = state.rows - state.inside; break;
        case Criterion::broken: merit[c] = state.broken; break;
      }
    }
    return merit;
  }

  const Pool& pool_;
  const std::vector<Criterion>& order_;
  std::vector<bool> has_;
  std::vector<long> gain_, least_;             // what each candidate's links to the set add up to, and the weakest of them
  std::vector<int> on_node_, on_package_;
  std::vector<std::size_t> taken_;             // by group
  State state_;
};

// For each candidate the first one that nothing tells it apart from.
std::vector<std::size_t> classes_of(const Pool& pool) {
  const auto alike = [&](std::size_t a, std::size_t b) {
    const Traits &x = pool.traits[a], &y = pool.traits[b];
    if (x.last_resort != y.last_resort || x.instance != y.instance || x.node != y.node || x.package != y.package ||
        x.group != y.group || x.row != y.row)
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
      : pool_(pool), order_(order), size_(size), class_(classes_of(pool)) {}

  Members best() {
    constexpr std::size_t improved = 8;        // of the sets grown, as many are worth the exchanges
    std::vector<std::pair<Merit, Members>> grown;
    for (std::size_t start = 0; start < pool_.size(); ++start)
      if (class_[start] == start) grown.push_back(grow(start));
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

  std::pair<Merit, Members> grow(std::size_t start) const {
    Growing set(pool_, order_);
    Members members{start};
    set.add(start);
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
};

}  // namespace

Members best_grown(const Pool& pool, const std::vector<Criterion>& order, std::size_t size) {
  return Search(pool, order, size).best();
}

}  // namespace thole::plan
