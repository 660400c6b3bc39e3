// The claim store of a machine, opened when something first asks it: what takes no GPU works where no store can be had.
#pragma once

#include <functional>
#include <utility>

#include "port/claim_store.hpp"

namespace thole::wire {

class LateStore : public port::ClaimStore {
 public:
  explicit LateStore(std::function<port::ClaimStore&()> open) : open_(std::move(open)) {}

  std::unique_ptr<port::Ticket> enter(port::Entry entry) override { return open_().enter(std::move(entry)); }
  std::vector<model::Holding> holdings() override { return open_().holdings(); }
  bool knows_any(const std::vector<std::string>& keys) override { return open_().knows_any(keys); }
  std::vector<model::Waiting> waiting() override { return open_().waiting(); }
  std::vector<std::string> own_claim(const std::string& id) override { return open_().own_claim(id); }
  std::optional<std::uint64_t> own_share(const std::string& id) override { return open_().own_share(id); }
  port::ClaimLocks own_locks(const std::string& id) override { return open_().own_locks(id); }
  port::InheritedLocks copy_locks(const std::string& id) override { return open_().copy_locks(id); }
  port::WatchedUnits watch(const std::string& id) override { return open_().watch(id); }
  std::vector<port::KeptAround> kept_around(const std::vector<std::string>& keys, bool shared) override {
    return open_().kept_around(keys, shared);
  }
  std::vector<pid_t> wanted_by(const port::Claim& claim) override { return open_().wanted_by(claim); }
  void check(const std::string& id, const std::vector<std::string>& units, std::span<const Fd> handed, uid_t owner) override {
    open_().check(id, units, handed, owner);
  }
  std::vector<model::InLine> said_in_line(const std::vector<std::string>& keys, const std::set<uid_t>& users) override {
    return open_().said_in_line(keys, users);
  }
  bool amend(const std::string& id, std::optional<WallTime> until, std::optional<pid_t> overdue) override {
    return open_().amend(id, until, overdue);
  }
  std::optional<model::Moment> moment() override { return open_().moment(); }
  port::Amended amend_as_of(const model::Moment& moment, const std::string& id, std::optional<WallTime> until) override {
    return open_().amend_as_of(moment, id, until);
  }
  port::StoreAbout about() const override { return open_().about(); }
  std::unique_ptr<port::ClaimStore> within(const std::string& claim_id) override { return open_().within(claim_id); }

 private:
  std::function<port::ClaimStore&()> open_;
};

}  // namespace thole::wire
