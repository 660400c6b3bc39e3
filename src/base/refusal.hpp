// Refusals that callers branch on: classes of their own, so that ErrorCode stays what exit statuses can tell.
#pragma once

#include "base/error.hpp"

namespace thole {

// This machine can never meet the request (of ErrorCode::usage).
struct NeverPossible : Error {
  explicit NeverPossible(Error error) : Error(std::move(error)) {}
};

// The driver does not answer, or a GPU asked for cannot be used (of ErrorCode::unavailable).
struct DriverTrouble : Error {
  explicit DriverTrouble(Error error) : Error(std::move(error)) {}
};

// Throws the one or the other of them.
[[noreturn]] void throw_refusal(bool never, const std::string& why);

// A stable word for the reason of a failure, for the C ABI and JSON: "never-possible", "driver", else the name of its code.
const char* reason(const Error& error);

}  // namespace thole
