// Work that is done by a thread of its own, and a descriptor that tells of its end.
#pragma once

#include <exception>
#include <functional>
#include <thread>

#include "base/bell.hpp"

namespace thole {

// One piece of work at a time.
class Aside {
 public:
  ~Aside() { end(); }

  int fd() const { return done_.fd(); }          // readable when the work is done, or could not be begun
  void begin(std::function<void()> work);        // after the last one's end()

  // Waits for the work; what it has thrown, or why it could not be begun; null: nothing.
  std::exception_ptr end();

 private:
  Bell done_;
  std::exception_ptr failure_;                   // the thread's, until that has been joined
  std::thread thread_;
};

}  // namespace thole
