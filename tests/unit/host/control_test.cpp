// A claim's socket and its holder, with a locked file in the place of a GPU.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/control/ask.hpp"
#include "host/control/door.hpp"
#include "host/control/local_control.hpp"
#include "support/said.hpp"

namespace thole::host {
namespace {

using namespace std::chrono_literals;

WallTime now() { return std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()); }

// A directory of the test's own with a file to lock.
class Control : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/thole-control-XXXXXX";
    root_ = ::mkdtemp(name);
    directory_ = root_ + "/0123456789abcdef";
    write_file(root_ + "/lock", "");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  Fd locked() const {
    Fd lock = open_at(AT_FDCWD, (root_ + "/lock").c_str(), O_RDWR);
    EXPECT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
    return lock;
  }
  bool is_locked() const {
    Fd lock = open_at(AT_FDCWD, (root_ + "/lock").c_str(), O_RDWR);
    return ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
  }
  port::DoorSpec door_spec() const {
    port::DoorSpec spec;
    spec.directory = directory_;
    spec.about = {"0123456789abcdef", ::getpid(), false, std::nullopt};
    return spec;
  }

  port::ClaimAddress here() const { return {"0123456789abcdef", directory_}; }
  std::string root_, directory_;
};

// Serves a door in a thread until the orders say "end"; joined when destroyed.
class Served {
 public:
  explicit Served(port::DoorSpec spec) : door_(std::move(spec)), stop_(make_pipe()), thread_([this] { serve(); }) {}
  ~Served() { stop_.write.reset(); thread_.join(); }
  port::Order last;

 private:
  void serve() {
    for (;;) {
      pollfd watched[] = {{door_.fd(), POLLIN, 0}, {stop_.read.get(), POLLIN, 0}};
      ::poll(watched, 2, -1);
      if (watched[0].revents) last = door_.serve();
      if (last.end) door_.let_go();
      if (watched[1].revents) return;
    }
  }
  Door door_;
  Pipe stop_;
  std::thread thread_;
};

TEST_F(Control, DescribesTheClaim) {
  auto spec = door_spec();
  spec.about.until = WallTime(1'800'000'000'123ms);
  Served served(std::move(spec));
  auto about = LocalControl().describe(here());
  EXPECT_EQ(about.id, "0123456789abcdef");
  EXPECT_EQ(about.pid, ::getpid());
  EXPECT_FALSE(about.holder);
  EXPECT_EQ(about.until, WallTime(1'800'000'000'123ms));
}

TEST_F(Control, RecordsANewEndBeforeItConfirms) {
  std::optional<WallTime> recorded;
  auto spec = door_spec();
  spec.amend = [&](std::optional<WallTime> until) { return (recorded = until).has_value(); };
  Served served(std::move(spec));
  LocalControl().extend(here(), WallTime(1'900'000'000'000ms));
  EXPECT_EQ(recorded, WallTime(1'900'000'000'000ms));
  EXPECT_EQ(LocalControl().describe(here()).until, WallTime(1'900'000'000'000ms));
}

TEST_F(Control, RefusesAnEndThatCannotBeRecorded) {
  const auto refused_with = [&](std::function<bool(std::optional<WallTime>)> amend) {
    auto spec = door_spec();
    spec.amend = std::move(amend);
    Served served(std::move(spec));
    std::string text = thole::test::said([&] { LocalControl().extend(here(), WallTime(1'900'000'000'000ms)); });
    EXPECT_FALSE(LocalControl().describe(here()).until);
    return text;
  };
  EXPECT_NE(
      refused_with([](auto) -> bool { throw Error(ErrorCode::unavailable, "the disk is full"); }).find("the disk is full"),
      std::string::npos);
  EXPECT_NE(refused_with([](auto) { return false; }).find("cannot be recorded"), std::string::npos);
}

TEST_F(Control, HandsOutDescriptorsThatKeepTheLock) {
  std::vector<Fd> copies;
  {
    Fd first = locked(), second = make_pipe().read;
    auto spec = door_spec();
    spec.locks = {first.get(), second.get()};
    Served served(std::move(spec));
    copies = LocalControl().descriptors(here(), {});
  }
  ASSERT_EQ(copies.size(), 2u);
  for (const Fd& copy : copies) EXPECT_TRUE(::fcntl(copy.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(is_locked());
  copies.clear();
  EXPECT_FALSE(is_locked());
}

TEST_F(Control, AnswersReleaseWhenTheKeeperHasLetGo) {
  Served served(door_spec());
  LocalControl().release(here());
  EXPECT_TRUE(served.last.end);
}

TEST_F(Control, RefusesWhatItDoesNotUnderstand) {
  Served served(door_spec());
  for (const char* question : {"", "nonsense", "extend", "extend x", "extend -5", "extend 999999999999999999999", "RELEASE"})
    EXPECT_THROW(ask_keeper(here(), question, 5s), Error) << question;
  EXPECT_THROW(ask_keeper(here(), std::string(5000, 'x'), 5s), Error);
  EXPECT_EQ(LocalControl().describe(here()).pid, ::getpid()) << "it still serves";
}

TEST_F(Control, SilentClientsDelayNobody) {
  Served served(door_spec());
  std::vector<Fd> silent;
  for (int i = 0; i < 40; ++i) {
    Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (directory_ + "/control").c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    silent.push_back(std::move(client));
    if (i % 10 == 0) { EXPECT_EQ(LocalControl().describe(here()).pid, ::getpid()); }
  }
  EXPECT_EQ(LocalControl().describe(here()).pid, ::getpid());
}

TEST_F(Control, ClosingTheDoorLeavesNothingBehind) {
  { Served served(door_spec()); }
  EXPECT_FALSE(std::filesystem::exists(directory_));
  EXPECT_THROW(LocalControl().describe(here()), Error);
}

TEST_F(Control, ASocketOfAKilledKeeperIsReplaced) {
  ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
  write_file(directory_ + "/control", "stale");
  Served served(door_spec());
  EXPECT_EQ(LocalControl().describe(here()).pid, ::getpid());
}

// What a keeper leaves that is killed before its claim ends.
std::string killed_keeper(const std::string& root, const char* id) {
  port::DoorSpec spec;
  spec.directory = root + "/" + id;
  Pipe opened = make_pipe();
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    Door door(spec);
    (void)!::write(opened.write.get(), "!", 1);
    ::pause();
    ::_exit(0);
  }
  char c;
  EXPECT_EQ(::read(opened.read.get(), &c, 1), 1);
  ::kill(keeper, SIGKILL);
  ::waitpid(keeper, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(spec.directory + "/control"));
  return spec.directory;
}

TEST_F(Control, WhatKilledKeepersLeftIsSweptWhenTheNextClaimEnds) {
  const std::string dead = killed_keeper(root_, "00000000000000d1"), held = killed_keeper(root_, "00000000000000a1"),
                    used = killed_keeper(root_, "00000000000000b1");
  write_file(used + "/outer", "/run/thole");
  port::DoorSpec other = door_spec();
  other.directory = root_ + "/00000000000000c1";
  Door living(other);
  {
    port::DoorSpec spec = door_spec();
    spec.lives = [](const std::string& id) { return id == "00000000000000a1"; };
    Door door(spec);
    door.let_go();
  }
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(held)) << "its command lives on";
  EXPECT_TRUE(std::filesystem::exists(used)) << "claims were made inside: swept by those rules";
  EXPECT_TRUE(std::filesystem::exists(other.directory + "/control")) << "its keeper lives";
}

TEST_F(Control, DirectoriesThatCannotBeTrustedAreRefused) {
  ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  EXPECT_THROW(Door{door_spec()}, Error) << "open to others";
  ASSERT_EQ(::chmod(directory_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0777), 0);
  EXPECT_THROW(Door{door_spec()}, Error) << "in a directory where others may rename it";
  ASSERT_EQ(::chmod(root_.c_str(), 0700), 0);
  ASSERT_EQ(::rmdir(directory_.c_str()), 0);
  ASSERT_EQ(::symlink("/tmp", directory_.c_str()), 0);
  EXPECT_THROW(Door{door_spec()}, Error) << "a planted link";
}

TEST_F(Control, AStrangersDirectoryIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  pid_t pid = ::fork();
  if (pid == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    try { Door door(door_spec()); } catch (const Error&) { ::_exit(0); }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ParseAbout, RefusesNonsense) {
  for (const char* text : {"", "id= pid=1", "id=a pid=", "pid=3", "x"}) EXPECT_THROW(parse_about(text), Error) << text;
}

// Holders become our children (subreaper), so that their end can be waited for.
class Holder : public Control {
 protected:
  void SetUp() override { Control::SetUp(); ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  void TearDown() override {
    if (pid_ > 0 && ::kill(pid_, SIGKILL) == 0) ::waitpid(pid_, nullptr, 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    Control::TearDown();
  }
  port::ToHold to_hold(std::optional<WallTime> until = std::nullopt) {
    port::ToHold held;
    port::ClaimParts parts;
    parts.id = "0123456789abcdef";
    parts.locks.push_back(locked());
    held.claim = port::Claim(port::Claim::State::held, std::move(parts));
    held.door = door_spec();
    held.door.about.until = until;
    held.message = "held by " + std::to_string(::getpid());
    return held;
  }
  std::string hold(const port::HoldSpec& spec = {}, std::optional<WallTime> until = std::nullopt) {
    std::string message = LocalControl().hold(spec, [&](const port::HoldCaller&) { return to_hold(until); });
    pid_ = std::atoi(message.c_str() + std::strlen("held by "));
    return message;
  }
  // The holder's end, within a generous time.
  bool ends() {
    Fd process = open_pidfd(pid_);
    pollfd watched{process.get(), POLLIN, 0};
    if (process && ::poll(&watched, 1, 20'000) != 1) return false;
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
    return true;
  }
  pid_t pid_ = 0;
};

TEST_F(Holder, HoldsUntilReleased) {
  hold();
  EXPECT_TRUE(is_locked());
  auto about = LocalControl().describe(here());
  EXPECT_EQ(about.pid, pid_);
  EXPECT_TRUE(about.holder);
  EXPECT_FALSE(about.until);
  LocalControl().release(here());
  EXPECT_FALSE(is_locked()) << "a release returns when the lock is free";
  EXPECT_TRUE(ends());
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

TEST_F(Holder, IsASessionOfItsOwnWithNothingOfTheCaller) {
  Pipe inherited = make_pipe();
  ASSERT_EQ(::fcntl(inherited.write.get(), F_SETFD, 0), 0);  // as $(thole claim) would have it
  hold();
  EXPECT_EQ(::getsid(pid_), pid_);
  EXPECT_EQ(std::filesystem::read_symlink("/proc/" + std::to_string(pid_) + "/cwd"), "/");
  for (int standard = 0; standard <= 2; ++standard)
    EXPECT_EQ(std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid_, standard)), "/dev/null");
  inherited.write.reset();
  char byte;
  EXPECT_EQ(::read(inherited.read.get(), &byte, 1), 0) << "nobody else has the other end";
  LocalControl().release(here());
  EXPECT_TRUE(ends());
}

TEST_F(Holder, SurvivesAHangupAndEndsOnTerm) {
  hold();
  ::kill(pid_, SIGHUP);
  EXPECT_EQ(LocalControl().describe(here()).pid, pid_);
  ::kill(pid_, SIGTERM);
  EXPECT_TRUE(ends());
  EXPECT_FALSE(is_locked());
}

TEST_F(Holder, LetsGoAtItsEnd) {
  hold({}, now() + 50ms);
  EXPECT_TRUE(ends());
  EXPECT_FALSE(is_locked());
}

TEST_F(Holder, CanBeExtendedAndShortened) {
  hold({}, now() + 1h);
  LocalControl().extend(here(), now() + 2h);
  EXPECT_TRUE(is_locked());
  LocalControl().extend(here(), now() + 20ms);
  EXPECT_TRUE(ends());
}

TEST_F(Holder, EndsWithTheProcessItHoldsFor) {
  pid_t adopted = ::fork();
  if (adopted == 0) { ::pause(); ::_exit(0); }
  hold({adopted});
  EXPECT_TRUE(is_locked());
  ::kill(adopted, SIGKILL);
  ::waitpid(adopted, nullptr, 0);
  EXPECT_TRUE(ends());
  EXPECT_FALSE(is_locked());
}

TEST_F(Holder, TellsWhenItsProcessOutlivesTheEnd) {
  pid_t adopted = ::fork();
  if (adopted == 0) { ::pause(); ::_exit(0); }
  Pipe told = make_pipe();
  std::string message = LocalControl().hold({adopted}, [&](const port::HoldCaller&) {
    auto held = to_hold(now() + 20ms);
    held.overdue = [&] { return ::write(told.write.get(), "o", 1) == 1; };
    return held;
  });
  pid_ = std::atoi(message.c_str() + std::strlen("held by "));
  EXPECT_TRUE(ends());
  EXPECT_FALSE(is_locked());
  char byte = 0;
  EXPECT_EQ(::read(told.read.get(), &byte, 1), 1);
  ::kill(adopted, SIGKILL);
  ::waitpid(adopted, nullptr, 0);
}

TEST_F(Holder, PassesOnWhyItCouldNotAcquire) {
  try {
    LocalControl().hold({}, [](const port::HoldCaller&) -> port::ToHold {
      throw Error(ErrorCode::unavailable, "cannot open").about("/run/thole").because(EACCES).hint("sudo thole init");
    });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_STREQ(error.what(), "cannot open");
    EXPECT_EQ(error.object(), "/run/thole");
    EXPECT_EQ(error.sys_errno(), EACCES);
    EXPECT_EQ(error.hint(), "sudo thole init");
  }
}

TEST_F(Holder, GivesBackWhatCannotBeTold) {
  port::HoldSpec spec;
  spec.tell = [&](const std::string& message) {
    EXPECT_TRUE(is_locked());
    pid_ = std::atoi(message.c_str() + std::strlen("held by "));
    throw Error(ErrorCode::unavailable, "cannot write");
  };
  EXPECT_THROW(LocalControl().hold(spec, [&](const port::HoldCaller&) { return to_hold(); }), Error);
  EXPECT_FALSE(is_locked());
  EXPECT_EQ(::kill(pid_, 0), -1) << "it has ended, and was waited for";
  pid_ = 0;
}

TEST_F(Holder, DyingEarlyIsAFailure) {
  EXPECT_THROW(LocalControl().hold({}, [](const port::HoldCaller&) -> port::ToHold { ::_exit(0); }), Error);
}

TEST_F(Holder, RefusesToHoldForNobody) {
  pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  EXPECT_THROW(hold({gone}), Error);
  EXPECT_FALSE(is_locked());
}

// A caller in a process of its own; it is interrupted while the holder "waits".
TEST_F(Holder, GivesUpWhenItsCallerIsInterrupted) {
  for (int signal : {SIGINT, SIGKILL}) {
    Pipe waiting = make_pipe();
    pid_t caller = ::fork();
    if (caller == 0) {
      ::signal(SIGINT, SIG_DFL);
      try {
        LocalControl().hold({}, [&](const port::HoldCaller& asking) -> port::ToHold {
          pid_t self = ::getpid();
          static_cast<void>(::write(waiting.write.get(), &self, sizeof self));
          pollfd watched{asking.gone, POLLIN, 0};
          ::poll(&watched, 1, -1);
          throw Error(ErrorCode::interrupted, "interrupted");
        });
      } catch (const Error&) {}
      ::_exit(0);
    }
    ASSERT_EQ(::read(waiting.read.get(), &pid_, sizeof pid_), static_cast<ssize_t>(sizeof pid_));
    Fd holder = open_pidfd(pid_);
    ::kill(caller, signal);
    int status = 0;
    ::waitpid(caller, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it dies by the signal";
    EXPECT_EQ(WTERMSIG(status), signal);
    pollfd watched{holder.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&watched, 1, 20'000), 1) << "the holder has left the line";
    ::waitpid(pid_, nullptr, WNOHANG);
    pid_ = 0;
  }
}

TEST_F(Holder, AStoppedOneKeepsItsClaimAndIsToldOf) {
  hold();
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
  EXPECT_TRUE(is_locked());
  try {
    ask_keeper(here(), "describe", 100ms);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.full().find("kill -CONT"), std::string::npos);
  }
  const auto before = std::chrono::steady_clock::now();   // one that ends may take a minute; a stopped one is told of before
  EXPECT_THROW(ask_keeper(here(), "release", 600s), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 300s);
  ::kill(pid_, SIGCONT);
  EXPECT_TRUE(ends()) << "it obeys when it goes on";
  EXPECT_FALSE(is_locked());
}

}  // namespace
}  // namespace thole::host
