// Torture of the claim store under the real fairness rule: many processes make exclusive, shared, nested and backfilled claims
// while they are killed at random moments from outside, at random steps of the protocol from inside, and stopped; some leave
// an orphan child that goes on holding.
//
// What is proved, and how:
//   double owners    every owner takes record locks of the proof's own on every unit (proof.hpp), and must get them at once
//   lost wake-ups    a claim won by the 2 s look alone, though nobody was stopped (Ticket::progress_by_timeout)
//   broken promises  a waiter that was promised a start and started later than that (by more than `slack`)
//   leaks            at the end nothing is held, nobody waits, and all units can be claimed at once
// Kills come in bursts with quiet times between them, longer than the 2 s look: in a storm of kills a waiter that missed its
// wake-up dies before that shows. Phase one kills only, and every number must be 0. Phase two stops processes too: then
// passing a stopped one takes the grace time, and holders that were stopped overrun their declared ends, so promises and
// time-outs are only reported. On a loaded machine a holder that does not get to run overruns its end, and a wake-up comes
// after the look: so what seems late is measured against what the load allowed (load.hpp).
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/store.hpp"
#include "load.hpp"
#include "lost_wake.hpp"
#include "plan/turn/turn.hpp"
#include "proof.hpp"

namespace thole::torture {
namespace {

constexpr unsigned unit_count = 8;
constexpr std::uint64_t unit_memory_mib = 40960, share_mib = 8192;
constexpr Millis slack{1500};

// Counters of all processes, in shared memory.
struct Tally {
  std::atomic<unsigned> exclusive, shared, nested, backfilled, orphans, self_kills, errors;
  std::atomic<unsigned> double_owners, over_budget, inner_doubles, by_timeout_unjudged, promises, unjudged;
  std::atomic<long> latest_ms, longest_wait_ms;
  Load load;
  std::atomic<bool> stop, kills_at_steps, stopping;
};
Tally* tally = nullptr;

std::mt19937_64 random_bits;
unsigned roll(unsigned sides) { return static_cast<unsigned>(random_bits() % sides); }

// fmt::print is left out of the static build of fmt.
template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), stdout);
}

void maximum(std::atomic<long>& most, long value) {
  long before = most.load();
  while (before < value && !most.compare_exchange_weak(before, value)) {}
}

void sleep_measured(unsigned micros) {
  const std::int64_t before = steady_ms();
  ::usleep(micros);
  tally->load.note_stall(before + micros / 1000, steady_ms());
}

// At each step of the protocol one process in a few hundred ends.
void maybe_die(const char*) {
  if (!tally->kills_at_steps || roll(150) != 0) return;
  ++tally->self_kills;
  ::kill(::getpid(), SIGKILL);
}

struct Site {
  std::string folder;
  std::vector<std::string> units;

  host::ClaimStoreOptions options(bool hooked) const {
    host::ClaimStoreOptions made;
    made.location = host::StateLocation::named(folder + "/state");
    made.units = units;
    made.personal_root = [inner = folder + "/inner"] { return inner; };
    if (hooked) made.step_hook = maybe_die;
    return made;
  }
};

// A third of the processes share most of the time, so that more want to share a unit than fit.
bool likes_sharing = false;

port::Entry random_entry(const Site& site) {
  port::Entry entry;
  entry.id = fmt::format("{:016x}", random_bits());
  entry.command = "torture";
  entry.eligible = site.units;
  if (roll(3) == 0) {                                    // overlapping sets
    std::shuffle(entry.eligible.begin(), entry.eligible.end(), random_bits);
    entry.eligible.resize(1 + roll(unit_count));
  }
  if (roll(10) < (likes_sharing ? 9 : 1)) {
    if (likes_sharing) entry.eligible.assign(1, site.units[roll(2)]);
    entry.shared = true;
    entry.memory_mib = share_mib;
  } else {
    entry.count = std::min<unsigned>(1u << roll(4), static_cast<unsigned>(entry.eligible.size()));
  }
  if (roll(3) == 0) entry.time = Seconds(1 + roll(3));
  return entry;
}

// The real rule, over units that are all healthy and free of strangers. `overtook`: it let this one go before an earlier one.
model::Rule rule_for(const port::Entry& entry, bool* overtook = nullptr, std::string* seen = nullptr) {
  return [&entry, overtook, seen](const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants,
                            WallTime now) {
    std::vector<plan::SlotState> states(queue.slots.size(), {true, unit_memory_mib, 0});
    plan::Chooser choose = [&](const model::SlotSet& free) -> std::optional<std::vector<unsigned>> {
      std::vector<unsigned> slots;
      for (unsigned slot = 0; slot < queue.slots.size() && slots.size() < entry.count; ++slot)
        if (free.test(slot)) slots.push_back(slot);
      if (slots.size() < entry.count) return std::nullopt;
      return slots;
    };
    model::Decision decision = plan::decide(queue, mine, wants, states, choose, now);
    if (seen) *seen += " |" + describe(queue, mine, wants, decision, now);
    if (overtook)
      *overtook = std::any_of(queue.tickets.begin(), queue.tickets.end(), [&](const model::TicketView& ticket) {
        return (!mine || ticket.number < *mine) && (ticket.eligible & wants.eligible).any();
      });
    return decision;
  };
}

struct Won {
  port::Claim claim;
  bool backfilled = false;
};

// Waits its turn, and keeps the books of wake-ups and promises.
std::optional<Won> acquire(port::ClaimStore& store, const port::Entry& entry, bool count_promises) {
  auto began = std::chrono::steady_clock::now();
  auto ticket = store.enter(entry);
  std::optional<WallTime> promise;
  std::int64_t promised_at = 0;
  model::Wait last;
  bool disturbed = tally->stopping, overtook = false;
  std::vector<Pass> passes(1);
  for (;;) {
    passes.back().at_ms = steady_ms();
    auto claim = ticket->step(rule_for(entry, &overtook, &passes.back().seen));
    auto now = std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now());
    disturbed = disturbed || tally->stopping;
    if (claim) {
      if (ticket->progress_by_timeout() != 0) {
        if (disturbed) ++tally->by_timeout_unjudged;
        else tally->load.note_late_wake(), say("{}", describe_lost(entry, last, overtook, passes));
      }
      maximum(tally->longest_wait_ms, std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - began).count());
      if (promise && disturbed && count_promises) ++tally->unjudged;
      if (promise && !disturbed && count_promises) {
        ++tally->promises;
        long late = (now - *promise).count();
        if (late > 0) maximum(tally->latest_ms, late);
        if (late > slack.count()) tally->load.note_late_promise(promised_at, late);
      }
      return Won{std::move(*claim), overtook && entry.time.has_value()};
    }
    if (const auto* wait = std::get_if<model::Wait>(&ticket->decision())) last = *wait;
    if (last.promise && (!promise || *last.promise < *promise)) {
      promise = *last.promise;
      promised_at = steady_ms();
    }
    if (tally->stop) return std::nullopt;
    const port::Wake wake = ticket->sleep({}, std::chrono::steady_clock::now() + Millis(1000 * (roll(10) == 0 ? 1 : 3600)));
    passes.emplace_back().wake = std::to_string(static_cast<int>(wake));
  }
}

// Holds a while, never beyond the declared end.
void hold(const port::Entry& entry) {
  unsigned micros = roll(3000);
  if (entry.time && roll(60) == 0) micros = static_cast<unsigned>(entry.time->count()) * 1'000'000 - 50'000;
  sleep_measured(micros);
}

// Claims one unit inside the claim `id`, in a process of its own.
[[noreturn]] void inner_worker(const Site& site, const std::string& id, const std::vector<std::string>& keys,
                               std::vector<Fd>& outer_proofs, std::uint64_t seed) {
  random_bits.seed(seed);
  auto store = host::open_claim_store(site.options(false));
  auto inner = store->within(id);
  port::Entry entry;
  entry.id = fmt::format("{:016x}", random_bits());
  entry.eligible = keys;
  auto won = acquire(*inner, entry, false);
  if (!won) outer_proofs.clear(), ::_exit(0);
  Fd proof = ProofBook(site.folder + "/proof-inner").own(won->claim.keys().at(0));
  if (!proof) ++tally->inner_doubles;
  ::usleep(roll(1000));
  outer_proofs.clear();
  if (roll(8) == 0) ::kill(::getpid(), SIGKILL);
  ::_exit(0);
}

void run_inner(const Site& site, const port::Claim& claim, std::vector<Fd>& proofs) {
  std::vector<pid_t> children;
  for (unsigned i = 0; i < claim.keys().size() + 1; ++i) {   // one more than there are units: it waits for another
    std::uint64_t seed = random_bits();
    pid_t pid = ::fork();
    if (pid == 0) inner_worker(site, claim.id(), claim.keys(), proofs, seed);
    children.push_back(pid);
  }
  for (pid_t pid : children) ::waitpid(pid, nullptr, 0);
  ++tally->nested;
}

void one_claim(const Site& site, port::ClaimStore& store) {
  port::Entry entry = random_entry(site);
  bool nested = !entry.shared && !entry.time && entry.count >= 2 && roll(12) == 0;
  auto won = acquire(store, entry, true);
  if (!won) return;
  ProofBook book(site.folder + "/proof");
  std::vector<Fd> proofs;
  for (const std::string& unit : won->claim.keys()) {
    proofs.push_back(entry.shared ? book.share(unit) : book.own(unit));
    if (!proofs.back()) ++(entry.shared ? tally->over_budget : tally->double_owners);
  }
  ++(entry.shared ? tally->shared : tally->exclusive);
  if (won->backfilled) ++tally->backfilled;
  if (nested) run_inner(site, won->claim, proofs);
  else hold(entry);
  if (roll(40) == 0) {                                     // an orphan goes on holding what its parent took
    const bool orphan = ::fork() == 0;
    if (orphan) ::usleep(roll(2000));
    else ++tally->orphans;
    proofs.clear();                                        // see proof.hpp
    ::_exit(0);
  }
  proofs.clear();                                          // before the claim: the next owner comes at once
}

[[noreturn]] void worker(const Site& site, std::uint64_t seed) {
  random_bits.seed(seed);
  likes_sharing = roll(3) == 0;
  try {
    auto store = host::open_claim_store(site.options(true));
    while (!tally->stop) one_claim(site, *store);
  } catch (const Error& error) {
    if (!tally->stop) {
      ++tally->errors;
      std::fputs(fmt::format("worker: {}\n", error.full()).c_str(), stderr);
    }
    ::_exit(1);
  }
  ::_exit(0);
}

class Torturer {
 public:
  Torturer(Site site, unsigned workers) : site_(std::move(site)), workers_(workers) { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

  // Until so many have been killed (from outside or at steps). False when nothing moves any more.
  bool run(unsigned kills, bool stops) {
    tally->stopping = stops;
    for (unsigned goal = killed() + kills; killed() < goal;) {
      if (!burst(std::min(goal, killed() + burst_kills), stops)) return false;
      quiet();
    }
    return true;
  }

  // Everybody ends; true when all did within half a minute.
  bool finish() {
    tally->stop = true;
    tally->kills_at_steps = false;
    continue_some(true);
    for (unsigned i = 0; i < 3000; ++i) {
      reap();
      if (::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return true;
      ::usleep(10000);
    }
    return false;
  }
  unsigned killed() const { return kills_ + tally->self_kills; }

 private:
  static constexpr unsigned burst_kills = 150;

  bool burst(unsigned goal, bool stops) {
    tally->kills_at_steps = true;
    unsigned claims = 0, still = 0;
    while (killed() < goal) {
      while (pids_.size() < workers_) spawn();
      sleep_measured(1000 + roll(3000));
      if (roll(4) == 0) kill_one();
      if (stops && roll(10) == 0) stop_one();
      continue_some(false);
      reap();
      unsigned now = tally->exclusive + tally->shared;
      still = now == claims ? still + 1 : 0;
      claims = now;
      if (still > 10000) return false;
    }
    continue_some(true);
    return true;
  }

  // Nobody is killed; whoever waits for a wake-up that was lost comes by the clock and is counted.
  void quiet() {
    tally->kills_at_steps = false;
    auto end = std::chrono::steady_clock::now() + Millis(2600);
    while (std::chrono::steady_clock::now() < end) {
      while (pids_.size() < workers_) spawn();
      sleep_measured(20000);
      reap();
    }
  }

  void spawn() {
    std::uint64_t seed = random_bits();
    pid_t pid = ::fork();
    if (pid == 0) worker(site_, seed);
    pids_.push_back(pid);
  }
  void kill_one() {
    ::kill(pids_[roll(static_cast<unsigned>(pids_.size()))], SIGKILL);
    ++kills_;
  }
  void stop_one() {
    pid_t pid = pids_[roll(static_cast<unsigned>(pids_.size()))];
    ::kill(pid, SIGSTOP);
    stopped_.push_back({pid, std::chrono::steady_clock::now() + Millis(roll(1500))});
    ++stops_;
  }
  void continue_some(bool all) {
    auto now = std::chrono::steady_clock::now();
    std::erase_if(stopped_, [&](const auto& entry) {
      if (!all && entry.second > now) return false;
      ::kill(entry.first, SIGCONT);
      return true;
    });
  }
  void reap() {
    watch_.look(pids_);
    for (;;) {
      siginfo_t ended{};
      if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
      watch_.forget(ended.si_pid);
      ::waitpid(ended.si_pid, nullptr, 0);
      std::erase(pids_, ended.si_pid);
    }
  }

  Site site_;
  unsigned workers_, kills_ = 0, stops_ = 0;
  std::vector<pid_t> pids_;
  std::vector<std::pair<pid_t, SteadyTime>> stopped_;
  Watch watch_{tally->load};

 public:
  unsigned stops() const { return stops_; }
};

// What is left when all have gone.
unsigned leaks(const Site& site) {
  auto store = host::open_claim_store(site.options(false));
  unsigned left = static_cast<unsigned>(store->holdings().size() + store->waiting().size());
  if (!ProofBook(site.folder + "/proof").empty()) ++left;
  port::Entry all;
  all.eligible = site.units;
  all.count = unit_count;
  all.id = "00000000000000ff";
  auto claim = store->enter(all)->step(rule_for(all));
  if (!claim) return left + 1;
  store->within(all.id);                                   // sweeps the directories of the dead
  unsigned directories = 0;
  for (const auto& entry : std::filesystem::directory_iterator(site.folder + "/inner"))
    if (entry.path().filename() != all.id) ++directories;
  return left + directories;
}

int report(const Torturer& torturer, unsigned left, bool moved, bool ended, std::int64_t began_ms) {
  say("kills {} (at protocol steps {}), stops {}, orphans {}\n", torturer.killed(), tally->self_kills.load(), torturer.stops(),
             tally->orphans.load());
  say("claims: exclusive {}, shared {}, nested {}, backfilled {}; longest wait {} ms\n", tally->exclusive.load(),
             tally->shared.load(), tally->nested.load(), tally->backfilled.load(), tally->longest_wait_ms.load());
  say("double owners {}, inner double owners {}, sharers over budget {}\n", tally->double_owners.load(),
             tally->inner_doubles.load(), tally->over_budget.load());
  const Load& load = tally->load;
  const Load::Verdict verdict = load.judge(slack.count());
  say("lost wake-ups {} (progress by time: {} while some were stopped, {} while some stood for {} ms)\n", verdict.lost,
      tally->by_timeout_unjudged.load(), verdict.clock_by_load, Load::short_stall);
  say("promises {}, broken {} (by {} ms); latest by {} ms; {} late by what the load explains; {} not judged: stops\n",
      tally->promises.load(), verdict.broken, verdict.latest, tally->latest_ms.load(), verdict.late_by_load,
      tally->unjudged.load());
  const std::int64_t whole = std::max<std::int64_t>(1, steady_ms() - began_ms);
  say("load: somebody stood for {} ms or more in {} % of the time, for {} ms or more in {} %; {} ms the longest\n",
      Load::short_stall, 100 * load.stalled(began_ms, steady_ms(), Load::short_stall) / whole, Load::long_stall,
      100 * load.stalled(began_ms, steady_ms(), Load::long_stall) / whole, load.longest());
  say("leaks {}, errors {}\n", left, tally->errors.load());
  if (!moved) say("NOTHING MOVED for ten seconds\n");
  if (!ended) say("SOME PROCESSES DID NOT END\n");
  bool good = moved && ended && left == 0 && tally->double_owners == 0 && tally->inner_doubles == 0 &&
              tally->over_budget == 0 && verdict.lost == 0 && verdict.broken == 0 && !verdict.overflow &&
              tally->errors == 0 && tally->exclusive > 0 && tally->shared > 0;
  say("{}\n", good ? "ok" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace

int main_program(unsigned kills, unsigned workers, std::uint64_t seed) {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);                   // workers say something too, and end by _exit
  const std::int64_t began_ms = steady_ms();
  void* memory = ::mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  tally = new (memory) Tally{};
  tally->kills_at_steps = true;
  random_bits.seed(seed);
  char name[] = "/dev/shm/thole-torture-XXXXXX", on_disk[] = "/tmp/thole-torture-XXXXXX";
  const char* made = ::mkdtemp(name);
  Site site;
  site.folder = made ? made : ::mkdtemp(on_disk);
  for (unsigned i = 0; i < unit_count; ++i) site.units.push_back("GPU-" + std::to_string(i));
  (void)host::open_claim_store(site.options(false));
  say("seed {}, {} workers\n", seed, workers);
  Torturer torturer(site, workers);
  bool moved = torturer.run(kills - kills / 4, false) && torturer.run(kills / 4, true);
  bool ended = torturer.finish();
  int status = report(torturer, ended ? leaks(site) : 0, moved, ended, began_ms);
  if (status == 0) std::filesystem::remove_all(site.folder);
  else say("kept: {}\n", site.folder);
  return status;
}

}  // namespace thole::torture

int main(int argc, char** argv) {
  unsigned kills = 5000, workers = 24;
  std::uint64_t seed = std::random_device{}();
  static const option options[] = {{"kills", 1, nullptr, 'k'}, {"workers", 1, nullptr, 'w'}, {"seed", 1, nullptr, 's'}, {}};
  for (int option; (option = ::getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    if (option == 'k') kills = static_cast<unsigned>(std::atoi(optarg));
    else if (option == 'w') workers = static_cast<unsigned>(std::atoi(optarg));
    else if (option == 's') seed = std::strtoull(optarg, nullptr, 10);
    else return 64;
  }
  return thole::torture::main_program(kills, workers, seed);
}
