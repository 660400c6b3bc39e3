#include "base/error.hpp"

#include <cstring>

#include "base/text.hpp"
#include "base/want.hpp"

namespace thole {

namespace {
constexpr std::size_t longest_object = 4096;  // a path
// Each line of a hint below its message; what is indented in it already stays where it is.
std::string indented(const std::string& hint) {
  std::string text;
  for (const std::string_view line : split(hint, '\n')) text += (line.starts_with(' ') ? "\n" : "\n  ") + std::string(line);
  return text;
}

}  // namespace

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage: return 64;
    case ErrorCode::unavailable: return 69;
    case ErrorCode::busy: return 75;
    case ErrorCode::timed_out: return 124;
    case ErrorCode::internal: return 125;
    case ErrorCode::not_executable: return 126;
    case ErrorCode::not_found: return 127;
    case ErrorCode::interrupted: return 130;
  }
  return 125;
}

const char* name(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage: return "usage";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::busy: return "busy";
    case ErrorCode::timed_out: return "timed-out";
    case ErrorCode::internal: return "internal";
    case ErrorCode::not_executable: return "not-executable";
    case ErrorCode::not_found: return "not-found";
    case ErrorCode::interrupted: return "interrupted";
  }
  return "internal";
}

std::string Error::without_hint() const {
  std::string text = what();
  if (!object_.empty()) text += ": " + printable(object_, longest_object);
  if (errno_ != 0) text += std::string(": ") + std::strerror(errno_);
  return text;
}

std::string Error::full() const {
  std::string text = without_hint();
  if (const std::string hint = hint_of(*this); !hint.empty()) text += indented(hint);
  return text;
}

}  // namespace thole
