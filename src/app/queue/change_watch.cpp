#include "app/queue/change_watch.hpp"

#include <cerrno>

#include "base/error.hpp"

namespace thole::app {

void ChangeWatch::make() {
  watch_.reset();
  try {
    watch_ = jobs_.watch(what_);
  } catch (const Error& error) {
    if (error.sys_errno() != EROFS) throw;
  }
}

bool ChangeWatch::renew() {
  if (!watch_ || watch_->stands()) return false;
  make();
  return true;
}

}  // namespace thole::app
