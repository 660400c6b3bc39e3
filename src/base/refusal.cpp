#include "base/refusal.hpp"

namespace thole {

void throw_refusal(bool never, const std::string& why) {
  if (never) throw NeverPossible(Error(ErrorCode::usage, why));
  throw DriverTrouble(Error(ErrorCode::unavailable, why));
}

const char* reason(const Error& error) {
  if (dynamic_cast<const NeverPossible*>(&error)) return "never-possible";
  if (dynamic_cast<const DriverTrouble*>(&error)) return "driver";
  return name(error.code());
}

}  // namespace thole
