// Help for the tests of the claim store: a state directory of its own, a plain first-come-first-served rule, child processes.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "host/claims/notes.hpp"
#include "host/claims/own_tickets.hpp"
#include "host/claims/queue_file.hpp"
#include "host/claims/store.hpp"
#include "support/said.hpp"

namespace thole::host::claim_tests {

// A temporary folder, gone with the test.
struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/dev/shm/thole-test-XXXXXX", on_disk[] = "/tmp/thole-test-XXXXXX";  // memory is faster, where there is some
    const char* made = ::mkdtemp(name);
    path = made ? made : ::mkdtemp(on_disk);
    ::chmod(path.c_str(), 0755);
  }
  ~TemporaryFolder() { std::error_code ignored; std::filesystem::remove_all(path, ignored); }
  std::string path;
};

// Two users that exist on no machine, for tests as root.
constexpr uid_t anna = 60001, bert = 60002;

inline void become(uid_t uid) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) ::_exit(90);
}

inline bool admits(const model::SlotView& slot, const port::Entry& entry) {
  if (slot.key.empty()) return false;
  if (slot.holders.empty()) return true;
  if (!entry.shared || slot.holders.size() >= model::share_berths) return false;
  return std::all_of(slot.holders.begin(), slot.holders.end(), [](const auto& holder) { return holder.shared; });
}

// First come, first served per overlapping set: the fairness rule without observation and backfill.
inline model::Rule fifo_rule(port::Entry entry) {
  return [entry](const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants,
                 WallTime) -> model::Decision {
    model::SlotSet busy;
    std::vector<unsigned> free;
    for (unsigned slot = 0; slot < queue.slots.size(); ++slot) {
      if (!wants.eligible[slot]) continue;
      if (admits(queue.slots[slot], entry)) free.push_back(slot);
      else busy.set(slot);
    }
    model::Wait wait;
    unsigned behind_count = 0;
    for (const auto& ticket : queue.tickets) {
      if ((mine && ticket.number >= *mine) || (ticket.eligible & wants.eligible).none()) continue;
      ++wait.position;
      if (ticket.stopped) continue;
      wait.behind = ticket.number;
      behind_count = ticket.count;
    }
    if (!wait.behind && free.size() >= entry.count) {
      free.resize(entry.count);
      return model::Take{free, {}};
    }
    wait.could_start_but_for_behind = wait.behind && free.size() >= behind_count;
    if (!wait.behind) wait.watch = busy;
    return wait;
  };
}

inline port::Entry entry(std::vector<std::string> eligible, unsigned count = 1) {
  port::Entry made;
  made.id = "0123456789abcdef";
  made.eligible = std::move(eligible);
  made.count = count;
  made.command = "test";
  return made;
}

inline port::Entry sharer(std::vector<std::string> eligible, std::uint64_t memory_mib) {
  port::Entry made = entry(std::move(eligible));
  made.shared = true;
  made.memory_mib = memory_mib;
  return made;
}

// Claims at once or not at all.
inline std::optional<port::Claim> try_claim(port::ClaimStore& store, const port::Entry& wanted) {
  return store.enter(wanted)->step(fifo_rule(wanted));
}

// Waits its turn for at most `patience`.
inline std::optional<port::Claim> claim(port::ClaimStore& store, const port::Entry& wanted, Seconds patience = Seconds(20)) {
  auto deadline = std::chrono::steady_clock::now() + patience;
  auto ticket = store.enter(wanted);
  while (std::chrono::steady_clock::now() < deadline) {
    if (auto won = ticket->step(fifo_rule(wanted))) return won;
    ticket->sleep({}, deadline);
  }
  return std::nullopt;
}

// A child that runs `body` and then exits with what it returns; killed at the latest by the destructor. `say` and `hear`
// connect the two.
class Child {
 public:
  explicit Child(const std::function<int(Child&)>& body) : to_child_(make_pipe()), to_parent_(make_pipe()) {
    pid_ = ::fork();
    if (pid_ == 0) {
      to_child_.write.reset();
      to_parent_.read.reset();
      int status = 99;
      try {
        status = body(*this);
      } catch (const std::exception& error) {
        fprintf(stderr, "child: %s\n", error.what());
      }
      ::_exit(status);
    }
    to_child_.read.reset();
    to_parent_.write.reset();
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  pid_t pid() const { return pid_; }
  void say(char c) { (void)!::write(pid_ == 0 ? to_parent_.write.get() : to_child_.write.get(), &c, 1); }
  char hear() {   // 0 when the other has gone, or the parent has listened for too long
    char c = 0;
    if (pid_ != 0 && !readable(to_parent_.read.get())) ADD_FAILURE() << "the child says nothing";
    else if (::read(ear(), &c, 1) != 1) c = '\0';
    return c;
  }
  int ear() const { return pid_ == 0 ? to_child_.read.get() : to_parent_.read.get(); }
  void kill(int signal) { ::kill(pid_, signal); }
  int wait() {   // exit status, or 128 + signal; a child that does not end is killed
    int status = 0;
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (process && !readable(process.get())) {
      ADD_FAILURE() << "the child does not end";
      ::kill(pid_, SIGKILL);
    }
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static bool readable(int fd) {   // within what the slowest machine needs; a broken rule must not keep the tests for ever
    pollfd polled{fd, POLLIN, 0};
    return ::poll(&polled, 1, 120'000) != 0;
  }

  Pipe to_child_, to_parent_;
  pid_t pid_ = -1;
};

// In a child: joins the line, says 'w', and stays until it has the claim. `others`: its copy, by fork, of its parent's claim.
struct Served {
  Served(port::ClaimStore& store, const port::Entry& wanted, std::optional<port::Claim>& others, Child& self) {
    others.reset();
    ticket = store.enter(wanted);
    claim = ticket->step(fifo_rule(wanted));
    self.say('w');
    while (!claim) {
      ticket->sleep({}, std::nullopt);
      claim = ticket->step(fifo_rule(wanted));
    }
  }
  std::unique_ptr<port::Ticket> ticket;
  std::optional<port::Claim> claim;
};

// What an action says that fails for want of something ("unavailable").
inline std::string trouble(const std::function<void()>& action) {
  std::string text = thole::test::said(action);
  EXPECT_TRUE(text.starts_with("unavailable: ")) << text;
  return text;
}

// Polls a condition until it holds; the tests' only use of time.
inline bool eventually(const std::function<bool()>& condition, Seconds patience = Seconds(10)) {
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Millis(2));
  }
  return true;
}

class ClaimStoreTest : public ::testing::Test {
 protected:
  ClaimStoreOptions options(StateLocation location) {
    ClaimStoreOptions made;
    made.location = std::move(location);
    made.units = units;
    made.personal_root = [path = folder.path + "/personal"] { return path; };
    return made;
  }
  std::unique_ptr<port::ClaimStore> open() { return open_claim_store(options(StateLocation::named(directory))); }

  Fd node(const std::string& name) { return open_at(AT_FDCWD, (directory + "/" + name).c_str(), O_RDWR | O_NONBLOCK); }
  std::vector<WrittenTicket> tickets() {
    const Fd file = node("queue");
    QueueFile queue(file.get());
    queue.read();
    return queue.tickets();
  }
  // As this user alone can say it, while the descriptor is open.
  Fd say(unsigned index, WrittenTicket ticket) {
    ticket.index = index;
    struct stat about {};
    EXPECT_EQ(::stat(directory.c_str(), &about), 0);
    StateDir state;
    state.dev = about.st_dev;
    state.ino = about.st_ino;
    const Fd notes = open_at(AT_FDCWD, (directory + "/notes").c_str(), O_RDONLY | O_DIRECTORY);
    Fd word;
    OwnTickets(notes.get(), ::geteuid(), number_of(state)).keep(word, ticket);
    EXPECT_TRUE(word);
    return word;
  }

  TemporaryFolder folder;
  std::string directory = folder.path + "/state";
  std::vector<std::string> units{"GPU-0", "GPU-1", "GPU-2", "GPU-3"};
};

}  // namespace thole::host::claim_tests
