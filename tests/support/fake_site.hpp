// A machine and a claim store in memory, for tests of use cases: one process, no kernel locks, no time.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/claim/acquire.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"

namespace thole::test {

class FakeClock final : public port::Clock {
 public:
  WallTime wall() const override { return WallTime{Millis{1'700'000'000'000}} + std::chrono::duration_cast<Millis>(passed); }
  SteadyTime steady() const override { return SteadyTime{passed}; }
  std::chrono::nanoseconds passed{0};
};

// Gives what `gpus` says at each reading; `on_read` may change it first.
class FakeBackend final : public port::GpuBackend {
 public:
  bool present() const override { return true; }
  using port::GpuBackend::read;
  port::Reading read(Millis within, const port::Question& question) override {
    ++reads;
    patience = within;
    asked.push_back(question);
    if (on_read) on_read(*this);
    return {gpus, {"fake", "memory", "", true, false, std::nullopt}};
  }
  port::Numbering numbering() const override {
    port::Numbering told;
    for (const model::Gpu& gpu : gpus) told.text += gpu.key() + " ";
    return told;
  }
  std::vector<model::Gpu> gpus;
  std::function<void(FakeBackend&)> on_read;
  int reads = 0;
  Millis patience{0};                            // of the last one
  std::vector<port::Question> asked;
};

inline model::Gpu healthy_gpu(int index) {
  model::Gpu gpu;
  gpu.uuid = fmt::format("GPU-{:08x}-0000-0000-0000-000000000000", index);
  gpu.model = "NVIDIA A100-SXM4-40GB";
  gpu.pci = model::PciAddress{0, static_cast<std::uint8_t>(16 + index), 0, 0};
  gpu.memory_mib = 40960;
  gpu.display = false;
  gpu.use.memory_used_mib = 0;
  gpu.use.utilization_percent = 0.0;
  gpu.use.processes = std::vector<model::GpuProcess>{};
  return gpu;
}

// Runs rules as the real store does, over holders that the test sets.
class FakeStore final : public port::ClaimStore {
 public:
  struct Held {
    std::string id;
    std::vector<std::string> keys;
    uid_t uid = 0;
    std::optional<std::uint64_t> shares_mib = {};   // a sharer's budget
    pid_t pid = 0;
    std::optional<WallTime> until = {};
  };
  std::vector<std::string> slots;
  std::vector<Held> held;
  std::vector<model::Waiting> line;
  std::function<void()> on_amend;               // what happens before a new end is known; may be empty
  std::function<port::Wake()> on_sleep;         // what happens while somebody sleeps
  std::map<std::string, std::vector<Held>> inner;
  std::vector<pid_t> wanting;                   // who waits for whatever is claimed
  int steps = 0;
  std::vector<port::Entry> entered;
  std::function<void()> on_enter;               // what happens before somebody enters; may throw
  bool keeps = false;                           // what is claimed is held by `me`, until its locks are closed

  // Of these slots, those that nobody holds.
  std::vector<std::string> idle() {
    std::erase_if(kept_, [&](const auto& claim) {
      if (!is_readable(claim.second.get())) return false;
      std::erase_if(held, [&](const Held& one) { return one.id == claim.first; });
      return true;
    });
    std::vector<std::string> left = slots;
    for (const Held& claim : held)
      for (const std::string& key : claim.keys) std::erase(left, key);
    return left;
  }

  std::unique_ptr<port::Ticket> enter(port::Entry entry) override {
    if (on_enter) on_enter();
    entered.push_back(entry);
    return std::make_unique<FakeTicket>(*this, std::move(entry));
  }
  bool knows_any(const std::vector<std::string>& keys) override {
    return std::ranges::any_of(keys, [this](const std::string& key) { return std::ranges::count(slots, key) != 0; });
  }
  std::vector<model::Holding> holdings() override {
    std::vector<model::Holding> all;
    for (const Held& claim : held)
      for (const std::string& key : claim.keys) {
        model::Holding holding;
        holding.key = key;
        holding.id = claim.id;
        holding.held = holding.verified = true;
        holding.uid = claim.uid;
        holding.pid = claim.pid;
        holding.until = claim.until;
        all.push_back(holding);
      }
    return all;
  }
  std::vector<model::Waiting> waiting() override { return line; }
  uid_t me = 0;                                 // whose claims can be claimed within
  std::vector<std::string> own_claim(const std::string& id) override {
    for (const Held& claim : held)
      if (claim.id == id && claim.uid == me) return claim.keys;
    return {};
  }
  std::optional<std::uint64_t> own_share(const std::string& id) override {
    for (const Held& claim : held)
      if (claim.id == id && claim.uid == me) return claim.shares_mib;
    return std::nullopt;
  }
  port::ClaimLocks own_locks(const std::string&) override { return {}; }
  port::InheritedLocks copy_locks(const std::string&) override { return {}; }
  port::WatchedUnits watch(const std::string&) override { return {}; }
  std::vector<port::KeptAround> around;         // what this process runs inside
  std::vector<port::KeptAround> kept_around(const std::vector<std::string>& keys, bool) override {
    std::vector<port::KeptAround> found;
    for (const port::KeptAround& unit : around)
      if (std::ranges::count(keys, unit.key) > 0) found.push_back(unit);
    return found;
  }
  std::vector<pid_t> wanted_by(const port::Claim&) override { return wanting; }
  std::vector<model::InLine> said;               // who says himself that he waits
  std::vector<model::InLine> said_in_line(const std::vector<std::string>&, const std::set<uid_t>&) override { return said; }
  void check(const std::string&, const std::vector<std::string>&, std::span<const Fd>, uid_t) override {}
  bool amend(const std::string& id, std::optional<WallTime> until, std::optional<pid_t>) override {
    if (on_amend) on_amend();
    amended = until;
    for (Held& claim : held)
      if (claim.id == id) claim.until = until;
    return true;
  }
  std::optional<WallTime> amended;               // the last end that was recorded without a question
  bool is_kept = false;                         // the claims, by somebody: nothing is in order
  std::optional<model::Moment> moment() override {
    if (is_kept) return std::nullopt;
    model::Moment all;
    for (const Held& claim : held)
      for (const std::string& key : claim.keys)
        all.push_back({static_cast<unsigned>(std::ranges::find(slots, key) - slots.begin()), 0, claim.id, claim.until});
    return all;
  }
  port::Amended amend_as_of(const model::Moment& was, const std::string& id, std::optional<WallTime> until) override {
    if (on_amend) on_amend();
    if (const auto now = moment(); !now || model::holds_longer(*now, was)) return port::Amended::outdated;
    for (Held& claim : held)
      if (claim.id == id) claim.until = until;
    return port::Amended::recorded;
  }
  port::StoreAbout about() const override { return {"memory", "private", "", {}, {}}; }
  std::unique_ptr<port::ClaimStore> within(const std::string& id) override {
    auto store = std::make_unique<FakeStore>();
    store->slots = slots;
    store->held = inner[id];
    store->on_sleep = on_sleep;
    return store;
  }

 private:
  std::vector<std::pair<std::string, Fd>> kept_;   // claims of `keeps`, and what is readable when one's locks are closed

  class FakeTicket final : public port::Ticket {
   public:
    FakeTicket(FakeStore& store, port::Entry entry) : store_(store), entry_(std::move(entry)) {}
    std::optional<port::Claim> step(const model::Rule& rule) override {
      (void)store_.idle();
      if (++store_.steps > 1000) throw Error(ErrorCode::internal, "asked again and again");   // no time passes here
      model::QueueView view;
      for (const std::string& key : store_.slots) {
        model::SlotView slot{key, {}};
        for (const Held& claim : store_.held)
          if (std::find(claim.keys.begin(), claim.keys.end(), key) != claim.keys.end())
            slot.holders.push_back({claim.uid, claim.shares_mib.has_value(), false, claim.shares_mib, std::nullopt});
        view.slots.push_back(slot);
      }
      model::Wants wants{entry_, {}, store_.me};
      for (std::size_t slot = 0; slot < store_.slots.size(); ++slot)
        if (std::ranges::count(entry_.eligible, store_.slots[slot]) > 0) wants.eligible.set(slot);
      decision_ = rule(view, std::nullopt, wants, WallTime{Millis{1'700'000'000'000}});
      const auto* take = std::get_if<model::Take>(&decision_);
      if (!take) return std::nullopt;
      port::ClaimParts claim;
      claim.id = entry_.id;
      for (unsigned slot : take->slots) {
        claim.keys.push_back(store_.slots[slot]);
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorCode::internal, "no pipe");
        if (store_.keeps && claim.locks.empty()) store_.kept_.emplace_back(claim.id, Fd(ends[0]));
        else ::close(ends[0]);
        claim.locks.push_back(Fd(ends[1]));                                   // of nothing
        if (std::find(entry_.eligible.begin(), entry_.eligible.end(), store_.slots[slot]) == entry_.eligible.end())
          throw Error(ErrorCode::internal, "the rule took a slot not asked for");
      }
      if (store_.keeps) store_.held.push_back({claim.id, claim.keys, store_.me});
      return port::Claim(port::Claim::State::held, std::move(claim));
    }
    const model::Decision& decision() const override { return decision_; }
    port::Wake sleep(std::span<const int>, std::optional<SteadyTime>) override {
      return store_.on_sleep ? store_.on_sleep() : port::Wake::deadline;
    }
    void pass_on() override {}
    void want(std::vector<std::string> eligible) override { entry_.eligible = std::move(eligible); }
    unsigned progress_by_timeout() const override { return 0; }

   private:
    FakeStore& store_;
    port::Entry entry_;
    model::Decision decision_;
  };
};

// A machine of n healthy GPUs with nobody on it.
struct FakeSite {
  explicit FakeSite(int gpus) {
    auto owned = std::make_unique<FakeBackend>();
    backend = owned.get();
    for (int i = 0; i < gpus; ++i) backend->gpus.push_back(healthy_gpu(i));
    for (const model::Gpu& gpu : backend->gpus) store.slots.push_back(gpu.key());
    std::vector<std::unique_ptr<port::GpuBackend>> backends;
    backends.push_back(std::move(owned));
    observer = std::make_unique<app::Observer>(std::move(backends), nullptr, clock, true);
    site = std::make_unique<app::Site>(app::Site{*observer, store, clock, environment, policy, policy, 0,
                                                 [](uid_t uid) { return "u" + std::to_string(uid); }, Millis{1000}});
  }
  FakeClock clock;
  FakeStore store;
  plan::Environment environment;
  model::FreePolicy policy;
  FakeBackend* backend = nullptr;
  std::unique_ptr<app::Observer> observer;
  std::unique_ptr<app::Site> site;
};

}  // namespace thole::test
