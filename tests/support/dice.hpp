// A small generator of our own: a seed means the same everywhere, and an event the same while RapidCheck shrinks a list.
#pragma once

#include <cstdint>
#include <vector>

namespace thole::test {

// The same on every platform, unlike the distributions of <random>.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 2 + 1) {}
  unsigned roll(unsigned sides) {              // 0 … sides - 1
    state_ += 0x9e3779b97f4a7c15u;             // splitmix64
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<unsigned>((x ^ (x >> 31)) % sides);
  }
  bool one_in(unsigned n) { return roll(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& all) { return all[roll(static_cast<unsigned>(all.size()))]; }

 private:
  std::uint64_t state_;
};

}  // namespace thole::test
