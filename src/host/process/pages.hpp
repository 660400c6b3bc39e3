// The stack of a child that shares our memory.
#pragma once

namespace thole::host {

// Pages of memory for a stack; mapped when first used.
class Pages {
 public:
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();
  void* end();                 // null with errno set when there are none to be had

 private:
  void* begin_ = nullptr;
};

}  // namespace thole::host
