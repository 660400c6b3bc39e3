// thole.hpp: the C ABI of thole.h as C++ values: move-only handles that end themselves, and one exception. Header only (C++17).
//
//     thole::Machine machine;
//     thole::Claim claim = machine.claim(R"({"gpus": 2})");
//     claim.set_environment();          // before CUDA, HIP or Level Zero is started
//     ...                               // the GPUs are yours while `claim` lives
//
// What the functions mean, their JSON and the rules for threads and processes are in thole.h.
#pragma once

#include <thole/thole.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace thole {

// Thrown for every failure of this header. what() is one line for people, with the fix.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const thole_error* error)
      : std::runtime_error(thole_error_text(error)),
        code_(thole_error_code(error)),
        sys_errno_(thole_error_errno(error)),
        object_(thole_error_object(error)),
        hint_(thole_error_hint(error)) {}

  thole_code code() const noexcept { return code_; }
  int sys_errno() const noexcept { return sys_errno_; }             // 0 where no system call failed
  const std::string& object() const noexcept { return object_; }   // the file, GPU or word it was about; may be empty
  const std::string& hint() const noexcept { return hint_; }       // the fix; may be empty

 private:
  thole_code code_;
  int sys_errno_;
  std::string object_, hint_;
};

// How long to wait for a turn, and what may end the wait sooner.
struct Patience {
  std::optional<std::chrono::milliseconds> wait;  // nothing: for ever; zero: not at all
  int cancel_fd = -1;                             // ends the wait when it is readable or hung up
};

// GPUs that are ours while this lives. Empty after a move or release().
class Claim {
 public:
  std::string id() const { return thole_claim_id(handle_.get()); }
  std::string json() const { return thole_claim_json(handle_.get()); }
  std::vector<std::string> uuids() const { return strings(thole_claim_uuids(handle_.get())); }

  // "NAME=value" to set, "NAME" to remove.
  std::vector<std::string> environment() const { return strings(thole_claim_environment(handle_.get())); }

  // Gives it to this process and the children it starts from now on. Not while other threads use the environment.
  void set_environment() const {
    if (thole_claim_set_environment(handle_.get()) != 0) throw std::bad_alloc();
  }

  void release() { handle_.reset(); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  friend class Machine;
  struct Release {
    void operator()(thole_claim* claim) const { thole_claim_release(claim); }
  };
  explicit Claim(thole_claim* claim) : handle_(claim) {}

  static std::vector<std::string> strings(const char* const* entry) {
    std::vector<std::string> all;
    for (; *entry; ++entry) all.emplace_back(*entry);
    return all;
  }

  std::unique_ptr<thole_claim, Release> handle_;
};

// This machine, or a simulated one. It must outlive the claims made through it.
class Machine {
 public:
  // `options`: JSON as for thole_open; "" for none.
  explicit Machine(const std::string& options = "") : handle_(call(thole_open, options.empty() ? nullptr : options.c_str())) {}

  // JSON: what `thole status --json` prints.
  std::string snapshot() { return text(call(thole_snapshot, handle_.get())); }

  // JSON: what a claim would get now, and why.
  std::string plan(const std::string& request) { return text(call(thole_plan, handle_.get(), request.c_str())); }

  // Claims, waiting its turn. Throws Failure with code THOLE_BUSY, THOLE_TIMED_OUT or THOLE_CANCELLED when the wait ended
  // without.
  Claim claim(const std::string& request, Patience patience = {}) {
    const std::int64_t wait_ms = patience.wait ? patience.wait->count() : THOLE_FOR_EVER;
    return Claim(call(thole_claim_gpus, handle_.get(), request.c_str(), wait_ms, patience.cancel_fd));
  }

 private:
  struct Close {
    void operator()(thole_machine* machine) const { thole_close(machine); }
  };

  // Calls a function of the C ABI and turns its error into the exception.
  template <class Result, class... Parameters, class... Arguments>
  static Result call(Result (*function)(Parameters...), Arguments... arguments) {
    thole_error* error = nullptr;
    if (Result result = function(arguments..., &error)) return result;
    const std::unique_ptr<thole_error, void (*)(thole_error*)> owned(error, thole_error_free);
    throw Failure(error);
  }

  static std::string text(char* owned) {
    const std::unique_ptr<char, void (*)(char*)> guard(owned, thole_free);
    return owned;
  }

  std::unique_ptr<thole_machine, Close> handle_;
};

}  // namespace thole
