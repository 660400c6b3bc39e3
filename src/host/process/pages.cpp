#include "host/process/pages.hpp"

#include <sys/mman.h>

#include <cstddef>

namespace thole::host {
namespace {

constexpr std::size_t stack_size = 64 * 1024;

}  // namespace

Pages::~Pages() {
  if (begin_) ::munmap(begin_, stack_size);
}

void* Pages::end() {
  if (!begin_) {
    void* made = ::mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (made == MAP_FAILED) return nullptr;
    begin_ = made;
  }
  return static_cast<char*>(begin_) + stack_size;
}

}  // namespace thole::host
