// Work that is done beside its caller's, and a descriptor that tells of its end.
#pragma once

#include <exception>
#include <functional>
#include <thread>

#include "base/bell.hpp"

namespace thole {

// One piece of work at a time.
class Aside {
 public:
  virtual ~Aside() = default;

  virtual int fd() const = 0;                    // readable when the work is done, or could not be begun
  virtual void begin(std::function<void()> work) = 0;   // after the last one's end()

  // Waits for the work; what it has thrown, or why it could not be begun; null: nothing.
  virtual std::exception_ptr end() = 0;
};

// By a thread of its own.
class AsideThread final : public Aside {
 public:
  ~AsideThread() override { join(); }

  int fd() const override { return done_.fd(); }
  void begin(std::function<void()> work) override;
  std::exception_ptr end() override;

 private:
  void join();

  Bell done_;
  std::exception_ptr failure_;                   // the thread's, until that has been joined
  std::thread thread_;
};

}  // namespace thole
