// The composition root: makes the adapters of one invocation and hands out what use cases need. The one table of backends is
// in wire.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/acquire.hpp"
#include "app/observer.hpp"
#include "port/claim_store.hpp"
#include "port/clock.hpp"
#include "port/processes.hpp"
#include "wire/settings.hpp"

namespace thole::wire {

// Adapters are made when first asked for: status of a hung driver needs no supervisor, `release` no backends.
class Wire {
 public:
  explicit Wire(Settings settings);
  ~Wire();
  Wire(const Wire&) = delete;

  const Settings& settings() const { return settings_; }
  const port::Clock& clock() const;
  app::Observer& observer();
  port::ClaimStore& store();       // throws Error(unavailable) when no state directory can be used
  port::Processes& processes();
  app::Site& site();               // of observer, store, clock and the settings

  // The directory of a claim's own files (control socket, the store inside it).
  std::string claim_directory(const std::string& claim_id);

 private:
  struct Parts;
  Settings settings_;
  std::unique_ptr<Parts> parts_;
};

// The name of a user, or the number where there is none.
std::string user_name(uid_t uid);

}  // namespace thole::wire
