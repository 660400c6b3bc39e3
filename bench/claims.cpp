// The price of a claim: claim and release in a process, beside a bare open+flock+close; and the hand-off from a release to the
// next owner with 1, 64 and 500 waiting processes, beside a bare wake-up through a pipe. Usage: bench_claims [rounds
// [waiters…]]
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "host/claims/store.hpp"
#include "plan/turn/turn.hpp"
#include "table.hpp"

namespace thole::bench {
namespace {

host::ClaimStoreOptions options(const std::string& folder) {
  host::ClaimStoreOptions made;
  made.location = host::StateLocation::personal(folder + "/personal", "machine");
  for (unsigned i = 0; i < 8; ++i) made.units.push_back("GPU-9f3c1f5e-0000-4000-8000-00000000000" + std::to_string(i));
  return made;
}

// The real rule on an idle, healthy machine.
model::Rule rule(const port::Entry& entry) {
  return [&entry](const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants, WallTime now) {
    std::vector<plan::SlotState> states(queue.slots.size(), {true, 81920, 0});
    return plan::decide(queue, mine, wants, states, [&](const model::SlotSet& free) -> std::optional<std::vector<unsigned>> {
      std::vector<unsigned> slots;
      for (unsigned slot = 0; slots.size() < entry.count; ++slot)
        if (free.test(slot)) slots.push_back(slot);
      return slots;
    }, now);
  };
}

port::Entry entry(const host::ClaimStoreOptions& options, unsigned count, unsigned eligible = 8) {
  port::Entry made;
  made.id = "0123456789abcdef";
  made.eligible.assign(options.units.begin(), options.units.begin() + eligible);
  made.count = count;
  made.command = "bench";
  return made;
}

void claim_and_release(const std::string& folder, unsigned rounds) {
  auto made = options(folder);
  auto store = host::open_claim_store(made);
  ::mkfifo((folder + "/bare").c_str(), 0600);
  Samples bare, one, eight;
  port::Entry wants_one = entry(made, 1), wants_eight = entry(made, 8);
  auto claim = [&](const port::Entry& wanted, Samples& samples) {
    double begin = now_us();
    auto won = store->enter(wanted)->step(rule(wanted));
    won.reset();
    samples.push_back(now_us() - begin);
  };
  for (unsigned i = 0; i < rounds; ++i) {
    double begin = now_us();
    int fd = ::open((folder + "/bare").c_str(), O_RDWR | O_CLOEXEC);
    ::flock(fd, LOCK_EX | LOCK_NB);
    ::close(fd);
    bare.push_back(now_us() - begin);
    claim(wants_one, one);
    if (i % 4 == 0) claim(wants_eight, eight);
  }
  print_head("claim + release in one process, 8 GPUs");
  print_row("bare open+flock+close of a FIFO", bare);
  print_row("1 of 8 GPUs", one);
  print_ratio(one, bare, 3);
  print_row("8 of 8 GPUs", eight);
  print_ratio(eight, bare, 8);
}

// Shared by the processes of one hand-off measurement.
struct Board {
  std::atomic<double> released, pinged;
  std::atomic<unsigned> handed, pings, waiting, wakes;
  double hand_offs[20000], wake_ups[20000];
};

// Answers each byte by noting how long it was on its way.
void echo(Board& board, int from) {
  char byte;
  while (::read(from, &byte, 1) == 1) board.wake_ups[board.pings++ % 20000] = now_us() - board.pinged;
  ::_exit(0);
}

[[noreturn]] void contender(Board& board, const std::string& folder, int ping, unsigned rounds, unsigned waiters) {
  auto made = options(folder);
  auto store = host::open_claim_store(made);
  port::Entry wanted = entry(made, 1, 1);
  while (board.handed < rounds) {
    auto ticket = store->enter(wanted);
    bool waited = false;
    auto won = ticket->step(rule(wanted));
    for (; !won; won = ticket->step(rule(wanted))) {
      if (!waited) ++board.waiting;
      waited = true;
      ticket->sleep({}, std::nullopt);
      ++board.wakes;
    }
    double claimed = now_us();
    ticket->pass_on();
    if (waited) {
      --board.waiting;
      unsigned n = board.handed++;
      if (n < 20000) board.hand_offs[n] = claimed - board.released;
    }
    while (board.waiting < waiters && board.handed < rounds) ::usleep(200);  // everybody is asleep in line
    ::usleep(500);
    board.pinged = now_us();
    (void)!::write(ping, "!", 1);
    ::usleep(500);
    unsigned before = board.handed;
    board.released = now_us();
    won.reset();
    while (board.handed == before && board.handed < rounds) ::usleep(200);   // not to be in the next owner's way
  }
  ::_exit(0);
}

void hand_off(const std::string& folder, unsigned waiters, unsigned rounds, double bound) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Board& board = *new (memory) Board{};
  Pipe ping = make_pipe();
  std::vector<pid_t> children;
  auto start = [&](auto body) {
    pid_t pid = ::fork();
    if (pid == 0) body();
    children.push_back(pid);
  };
  start([&] { ping.write.reset(); echo(board, ping.read.get()); });
  for (unsigned i = 0; i < waiters + 1; ++i) start([&] { contender(board, folder, ping.write.get(), rounds, waiters); });
  while (board.handed < rounds) ::usleep(10000);
  double wakes = static_cast<double>(board.wakes) / board.handed;
  for (pid_t pid : children) ::kill(pid, SIGKILL);
  for (pid_t pid : children) ::waitpid(pid, nullptr, 0);
  Samples ours(board.hand_offs + std::min(rounds / 10, 50u), board.hand_offs + std::min(rounds, 20000u));
  Samples bare(board.wake_ups, board.wake_ups + std::min(board.pings.load(), 20000u));
  std::string title = "hand-off with " + std::to_string(waiters) + " waiting";
  print_head(title.c_str());
  print_row("bare wake-up through a pipe", bare);
  print_row("release -> next owner", ours);
  print_ratio(ours, bare, bound);
  std::printf("  wake-ups per hand-off %.1f\n", wakes);
  ::munmap(memory, sizeof(Board));
}

}  // namespace
}  // namespace thole::bench

int main(int argc, char** argv) {
  unsigned rounds = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1000;
  char name[] = "/dev/shm/thole-bench-XXXXXX", on_disk[] = "/tmp/thole-bench-XXXXXX";
  const char* made = ::mkdtemp(name);
  std::string folder = made ? made : ::mkdtemp(on_disk);   // memory, as /run is
  thole::bench::claim_and_release(folder, rounds * 10);
  const std::pair<unsigned, double> hand_offs[] = {{1, 3.5}, {64, 4}, {500, 5}};
  for (auto [waiters, bound] : hand_offs) {
    bool wanted = argc < 3;
    for (int i = 2; i < argc; ++i) wanted = wanted || std::atoi(argv[i]) == static_cast<int>(waiters);
    if (wanted) thole::bench::hand_off(folder, waiters, rounds, bound);
  }
  std::filesystem::remove_all(folder);
}
