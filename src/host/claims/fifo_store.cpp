#include "host/claims/fifo_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "base/error.hpp"
#include "host/claims/init.hpp"
#include "host/claims/inner.hpp"
#include "host/claims/space.hpp"

namespace thole::host {

FifoStore::FifoStore(ClaimStoreOptions options, StateDir directory, bool look_only)
    : options_(std::move(options)), look_only_(look_only), me_(own_identity()) {
  nodes_.emplace(std::move(directory), options_.units);
  queue_.emplace(nodes_->queue());
}

std::unique_ptr<port::Place> FifoStore::enter(port::Entry entry) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  look_only_ = false;  // who claims makes what is missing, where the directory is his
  auto unknown = [&](const std::string& key) { return !nodes_->slot_of(key); };
  if (std::any_of(entry.eligible.begin(), entry.eligible.end(), unknown)) nodes_->refresh_slots();
  if (std::any_of(entry.eligible.begin(), entry.eligible.end(), unknown)) {
    for (const std::string& key : entry.eligible)
      if (unknown(key)) options_.units.push_back(key);
    open_again();
    slots_of(entry);
    for (const std::string& key : entry.eligible)
      if (unknown(key)) caution(key + " cannot be claimed before: " + init_hint());
  }
  return std::make_unique<FifoPlace>(*this, std::move(entry));
}

model::SlotSet FifoStore::slots_of(const port::Entry& entry) const {
  model::SlotSet slots;
  std::string unknown;
  for (const std::string& key : entry.eligible) {
    if (auto slot = nodes_->slot_of(key)) slots.set(*slot);
    else unknown = key;
  }
  if (slots.count() < entry.count && !unknown.empty())
    throw Error(ErrorCode::unavailable, "the state directory " + nodes_->path() + " does not know this unit")
        .about(unknown)
        .hint(init_hint());
  return slots;
}

// Who can add a unit, and how.
std::string FifoStore::init_hint() const {
  return nodes_->state().kind == DirKind::named ? "its owner adds it: thole --state-dir " + nodes_->path() + " init"
                                                : "sudo thole init";
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

bool FifoStore::reopen() {
  std::lock_guard lock(threads_);
  const ino_t ino = nodes_->state().ino;
  const dev_t dev = nodes_->state().dev;
  open_again();
  return nodes_->state().ino != ino || nodes_->state().dev != dev;
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
  if (nodes_->state().kind == DirKind::system)
    if (std::string full = nearly_full(nodes_->path()); !full.empty()) about.cautions.push_back(std::move(full));
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

Section::Section(FifoStore& store) : threads_((store.adopt_after_fork(), store.threads())) {
  for (;;) {
    alloc_.emplace(store.nodes().alloc(), store.nodes().path(), store.options().patience,
                   [&store](const std::string& text) { store.caution(text); });
    if (!store.nodes().replaced()) break;
    alloc_.reset();  // others meet in the new one already; every place in line is in the new queue too
    store.open_again();
  }
  store.hook("locked");
}

std::unique_ptr<port::ClaimStore> open_claim_store(ClaimStoreOptions options) {
  const StatePaths& paths = options.location.paths;
  if (options.location.kind == StateLocation::Kind::common && ::geteuid() == paths.system_owner && !is_complete(paths)) {
    InitWish wish;
    wish.group = options.group;
    init_claims(options.location, options.units, wish);
  }
  StateDir directory = open_state_dir(options.location);
  return std::make_unique<FifoStore>(std::move(options), std::move(directory), false);
}

std::unique_ptr<port::ClaimStore> find_claim_store(ClaimStoreOptions options) {
  auto directory = find_state_dir(options.location);
  if (!directory || ::faccessat(directory->fd.get(), "queue", F_OK, AT_SYMLINK_NOFOLLOW) != 0) return nullptr;
  directory->mine = false;
  return std::make_unique<FifoStore>(std::move(options), std::move(*directory), true);
}

}  // namespace thole::host
