// What the opaque handles of thole.h hold, and where alone exceptions become error objects.
#pragma once

#include <thole/thole.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "base/error.hpp"
#include "base/without_signal.hpp"
#include "wire/config.hpp"
#include "wire/wire.hpp"

struct thole_error {
  thole_code code = THOLE_INTERNAL;
  int sys_errno = 0;
  std::string text, message, object, hint;
  const char* reason = "internal";
};

namespace thole::capi {

// A Wire serves one thread at a time, so a machine keeps as many as there were calls at once.
class Wires {
 public:
  explicit Wires(wire::Settings settings) : settings_(std::move(settings)) {}

  // A Wire for the length of one call; it goes back to the pool afterwards. What it writes ends no caller that has a limit of
  // file sizes.
  class Lease {
   public:
    explicit Lease(Wires& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    wire::Wire* operator->() { return wire_.get(); }
    wire::Wire& operator*() { return *wire_; }

   private:
    Wires& pool_;
    std::unique_ptr<wire::Wire> wire_;
    const WithoutSignal full_file_;
  };

 private:
  const wire::Settings settings_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<wire::Wire>> idle_;
};

// A NULL-terminated array of C strings over strings that it owns.
class Strings {
 public:
  explicit Strings(std::vector<std::string> strings);
  const char* const* array() const { return pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  std::vector<const char*> pointers_;
};

// The path of the program `thole` that belongs to this library (it is re-executed as the probe): in the tree the library was
// installed or built in, else on PATH.
std::string program_beside_library(const std::string& path_variable);

// THOLE_TOO_LATE: a failure that only a library can have, not the program.
struct TooLate : Error {
  explicit TooLate(Error error) : Error(std::move(error)) {}
};

// What a caller passed where something is asked for; NULL there is a mistake of his that is told, not one that ends his
// program.
template <class Pointee>
Pointee& given(Pointee* pointer, const char* what) {
  if (!pointer) throw Error(ErrorCode::usage, std::string(what) + ": expected one, got NULL");
  return *pointer;
}

// A copy that thole_free releases.
char* owned_text(const std::string& text);

// Writes the error object for the exception being handled. Called in a catch block only.
void report(thole_error** error) noexcept;

// Runs a body whose result is a pointer; NULL and an error object when it throws.
template <class Body>
auto guarded(thole_error** error, Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    report(error);
    return nullptr;
  }
}

}  // namespace thole::capi

struct thole_machine {
  thole::wire::Config config;
  thole::capi::Wires wires;
};

struct thole_claim {
  thole::app::Acquired acquired;
  thole::model::Request request;
  thole::plan::Ids ids = thole::plan::Ids::automatic;
  std::string json;
  thole::plan::Variables variables;
  thole::capi::Strings uuids, environment;
};
