// What an error says, as text to compare.
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"

namespace thole::test {

// "usage: no such GPU: 9 (try: …)"
inline std::string said(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.full();
  }
  return "nothing was thrown";
}

}  // namespace thole::test
