#include "host/claims/fifo_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "base/error.hpp"
#include "host/claims/inner.hpp"

namespace thole::host {

FifoStore::FifoStore(ClaimStoreOptions options, StateDir directory, bool look_only)
    : options_(std::move(options)), look_only_(look_only), me_(own_identity()) {
  nodes_.emplace(std::move(directory), options_.units);
  queue_.emplace(nodes_->queue());
}

std::unique_ptr<port::Place> FifoStore::enter(port::Entry entry) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  auto unknown = [&](const std::string& key) { return !nodes_->slot_of(key); };
  if (std::any_of(entry.eligible.begin(), entry.eligible.end(), unknown)) {
    nodes_->refresh_slots();
    for (const std::string& key : entry.eligible)
      if (unknown(key)) options_.units.push_back(key);
    if (nodes_->state().mine) open_again();
    slots_of(entry.eligible);
  }
  return std::make_unique<FifoPlace>(*this, std::move(entry));
}

model::SlotSet FifoStore::slots_of(const std::vector<std::string>& keys) const {
  model::SlotSet slots;
  for (const std::string& key : keys) {
    auto slot = nodes_->slot_of(key);
    if (!slot)
      throw Error(ErrorCode::unavailable, "the state directory " + nodes_->path() + " does not know this unit").about(key).hint(
          "sudo thole init");
    slots.set(*slot);
  }
  return slots;
}

void FifoStore::open_again() {
  if (look_only_) {
    auto directory = find_state_dir(options_.location);
    if (!directory) throw Error(ErrorCode::unavailable, "the state directory was deleted").about(nodes_->path());
    directory->mine = false;
    nodes_.emplace(std::move(*directory), options_.units);
  } else {
    nodes_.emplace(open_state_dir(options_.location), options_.units);
  }
  queue_.emplace(nodes_->queue());
}

void FifoStore::reopen() {
  std::lock_guard lock(threads_);
  open_again();
}

void FifoStore::adopt_after_fork() {
  if (static_cast<std::uint32_t>(::getpid()) == me_.pid) return;
  new (&threads_) std::mutex;  // another thread of the parent may have had it; that thread is not here
  me_ = own_identity();
  open_again();
}

void FifoStore::caution(const std::string& text) {
  {
    std::lock_guard lock(cautions_mutex_);
    if (std::find(cautions_.begin(), cautions_.end(), text) != cautions_.end()) return;
    cautions_.push_back(text);
  }
  if (options_.log) options_.log->say(port::Level::warning, text);
}

port::StoreAbout FifoStore::about() const {
  static constexpr const char* kinds[] = {"system", "fallback", "explicit", "private"};
  port::StoreAbout about{nodes_->path(), kinds[static_cast<int>(nodes_->state().kind)], nodes_->cautions()};
  std::lock_guard lock(cautions_mutex_);
  about.cautions.insert(about.cautions.end(), cautions_.begin(), cautions_.end());
  return about;
}

std::unique_ptr<port::ClaimStore> FifoStore::within(const std::string& claim_id) {
  ClaimStoreOptions inner = options_;
  inner.location = inner_location(options_, claim_id);
  inner.units.clear();  // those of the claim: each is added by the first who enters for it
  sweep_inner_directories(options_, nodes_->path(), [this] { return holdings(); });
  StateDir directory = open_state_dir(inner.location);
  mark_inner_directory(directory, nodes_->path());
  return std::make_unique<FifoStore>(std::move(inner), std::move(directory), false);
}

Section::Section(FifoStore& store)
    : threads_((store.adopt_after_fork(), store.threads())),
      alloc_(store.nodes().alloc(), store.nodes().path(), store.options().patience,
             [&store](const std::string& text) { store.caution(text); }) {
  store.hook("locked");
}

std::unique_ptr<port::ClaimStore> open_claim_store(ClaimStoreOptions options) {
  StateDir directory = open_state_dir(options.location);
  return std::make_unique<FifoStore>(std::move(options), std::move(directory), false);
}

std::unique_ptr<port::ClaimStore> find_claim_store(ClaimStoreOptions options) {
  auto directory = find_state_dir(options.location);
  if (!directory || ::faccessat(directory->fd.get(), "queue", F_OK, AT_SYMLINK_NOFOLLOW) != 0) return nullptr;
  directory->mine = false;
  return std::make_unique<FifoStore>(std::move(options), std::move(*directory), true);
}

InitReport init_claims(const StateLocation& location, const std::vector<std::string>& units, NodeAccess access) {
  bool common = location.kind == StateLocation::Kind::common;
  if (common && ::geteuid() != location.paths.system_owner)
    throw Error(ErrorCode::unavailable, "only root can make the machine's state directory").about(location.paths.system).hint(
        "sudo thole init");
  ClaimDirectory nodes(common ? make_system_dir(location.paths) : open_state_dir(location), units, access);
  if (!nodes.state().mine)
    throw Error(ErrorCode::unavailable, "only its owner can mend a state directory").about(nodes.path());
  AllocLock lock(nodes.alloc(), nodes.path(), {}, {});
  InitReport report;
  report.directory = nodes.path();
  report.freed = nodes.mend(units);
  for (const std::string& key : nodes.slots()) report.slots += key.empty() ? 0 : 1;
  return report;
}

}  // namespace thole::host
