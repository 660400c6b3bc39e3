// Something to say to people whom something else keeps waiting.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/time.hpp"

namespace thole::cli {

// Calls `say` once, from a thread of its own, if it still lives after `delay`. Its destructor waits for a call that has begun,
// so what is said stands before whatever is printed afterwards. Where no thread can be had nothing is said.
class Meanwhile {
 public:
  Meanwhile(Millis delay, std::function<void()> say) {
    const auto wait = [this, delay, say = std::move(say)](const std::stop_token& over) {
      std::unique_lock lock(mutex_);
      if (!ended_.wait_for(lock, over, delay, [&over] { return over.stop_requested(); })) say();
    };
    try {
      thread_ = std::jthread(wait);
    } catch (const std::system_error&) {
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace thole::cli
