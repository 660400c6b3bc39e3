// What fails for now, and may not later: it is told once, until it is over or another, and tried again after pauses that grow.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/time.hpp"

namespace thole::app {

class Trouble {
 public:
  void met(const std::string& text, const std::function<void(const std::string&)>& say) {
    if (std::exchange(text_, text) != text) say(text);
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now < again_) return;                    // it was tried before its time
    pause_ = std::clamp(pause_ * 2, Seconds{1}, longest);
    again_ = now + pause_;
  }
  void over() { *this = {}; }
  void try_now() { again_ = {}; }

  bool is_on() const { return !text_.empty(); }
  SteadyTime again() const { return again_; }

 private:
  static constexpr Seconds longest{30};
  std::string text_;
  Seconds pause_{0};
  SteadyTime again_{};
};

}  // namespace thole::app
