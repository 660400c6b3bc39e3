#include "base/aside.hpp"

#include <system_error>
#include <utility>

#include "base/want.hpp"

namespace thole {

void AsideThread::begin(std::function<void()> work) {
  const auto all = [this, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
    done_.ring();
  };
  try {
    thread_ = std::thread(all);
  } catch (const std::system_error& refused) {
    failure_ = std::make_exception_ptr(thread_not_started(refused.code().value()));
    done_.ring();
  }
}

void AsideThread::join() {
  if (thread_.joinable()) thread_.join();
}

std::exception_ptr AsideThread::end() {
  join();
  done_.silence();
  return std::exchange(failure_, nullptr);
}

}  // namespace thole
