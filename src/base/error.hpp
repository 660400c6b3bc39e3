// The one exception of thole: what failed, on which object, and what mends it.
#pragma once

#include <stdexcept>
#include <string>

namespace thole {

// Classes of failure. Each maps to one documented exit status (see exit_status).
enum class ErrorCode {
  usage,        // 64: the request is malformed, or this machine can never meet it
  unavailable,  // 69: the driver, a GPU asked for, or the state directory cannot be used
  busy,         // 75: none free, and the caller did not want to wait
  timed_out,    // 124: the wait ran out
  internal,     // 125: thole itself failed
  not_executable,  // 126: the command was found but cannot be run
  not_found,       // 127: the command does not exist
  interrupted,     // the wait was ended by a signal or by the caller; exit dies by that signal
};

// The process exit status for a code; `interrupted` has none of its own and gives 130.
int exit_status(ErrorCode code);

// A stable lower-case name ("usage", "unavailable"…), used in JSON and the C ABI.
const char* name(ErrorCode code);

// Thrown for every failure that is not an outcome to branch on. Caught where a program, a library's
// call, a job or a probe ends, and where there is something else to try or to add.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message) : std::runtime_error(std::move(message)), code_(code) {}

  // Builder style, so that a throw reads as one sentence:
  //   throw Error(ErrorCode::unavailable, "cannot open").about(path).because(errno).hint("sudo thole init");
  Error&& about(std::string object) && { object_ = std::move(object); return std::move(*this); }
  Error&& because(int sys_errno) && { errno_ = sys_errno; return std::move(*this); }
  Error&& hint(std::string hint) && { hint_ = std::move(hint); return std::move(*this); }

  ErrorCode code() const { return code_; }
  int sys_errno() const { return errno_; }              // 0 when no system call failed
  const std::string& object() const { return object_; }  // the file, GPU, word … it was about
  const std::string& hint() const { return hint_; }      // the fix, a sentence or a command

  // "cannot open: /run/thole/alloc: Permission denied (try: sudo thole init)"
  std::string full() const;
  std::string without_hint() const;

 private:
  ErrorCode code_;
  int errno_ = 0;
  std::string object_, hint_;
};

}  // namespace thole
