// Runners that are killed, hang, or find another; and who starts them.
#include "base/poke.hpp"
#include "base/text.hpp"
#include "unit/host/queue_fixture.hpp"

namespace thole::host::queue_tests {
namespace {

TEST(QueueRunner, AKilledProcessIsDyingFromTheSignalOn) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_FALSE(is_dying(child));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(is_dying(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_dying(child));
}

// Of these the kernel makes no KILL at once, since a core may be written. The child is kept from hearing them: it waits for one
// that it has started by vfork.
TEST(QueueRunner, SoIsOneThatASignalWithACoreWillEndAndNoneThatHearsItsOwnWay) {
  const std::map<int, bool> ends = {{SIGSEGV, true}, {SIGABRT, true},  {SIGQUIT, true},  {SIGBUS, true},
                                    {SIGUSR1, false}, {SIGUSR2, false}, {SIGWINCH, false}, {SIGHUP, false}};
  for (const auto& [signal, dying] : ends) {
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_CORE, &none);
      ::signal(SIGUSR1, [](int) {});
      ::signal(SIGHUP, SIG_IGN);
      sigset_t blocked;
      sigemptyset(&blocked);
      sigaddset(&blocked, SIGUSR2);
      sigprocmask(SIG_BLOCK, &blocked, nullptr);
      const pid_t self = ::getpid();
      if (::vfork() == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() == self) ::pause();
        ::_exit(0);
      }
      ::_exit(0);
    }
    for (auto seen = read_process(child); !seen || seen->state != 'D'; seen = read_process(child)) ::sched_yield();
    ::kill(child, signal);
    EXPECT_EQ(is_dying(child), dying) << ::strsignal(signal);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST(QueueRunner, AProcessThatCannotBeLookedAtIsNotTakenForADyingOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool dying = is_dying(::getpid());
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(dying);
}

// Without a descriptor to look with nobody is gone: a run that lives would be begun again.
TEST_F(QueueSeats, WhoCannotBeLookedAtIsNotCountedAsGone) {
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  const auto lane = lanes.take(0, 1);
  const std::map<std::string, std::function<void()>> looks = {
      {"lanes", [&] { lanes.look(); }},
      {"a lane", [&] { lanes.look_at(0); }},
      {"bearers", [&] { lanes.bearers({"no such mark"}); }},
      {"holders", [&] { lanes.holders(0, {"no such mark"}); }},
      {"the seat", [&] { look_at_seat(directory_ + "/runner"); }},
      {"the boot", [] { known_boot(); }},
  };
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  std::map<std::string, std::string> said;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const auto& [what, look] : looks) said[what] = test::said(look);
  ::setrlimit(RLIMIT_NOFILE, &before);
  for (const auto& [what, error] : said) EXPECT_NE(error, "nothing was thrown") << what;
}

TEST(QueueRunner, WhyAnEnvironmentIsNotShownIsToldWithIt) {
  const ShownEnvironment gone = environment_of(1 << 30);
  EXPECT_EQ(gone.why, ENOENT);
  EXPECT_EQ(gone.look_for("THOLE_TASK="), Word::missing);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int without_descriptors = environment_of(::getpid()).why;
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(without_descriptors, EMFILE);
  const pid_t closed = child_that([] { ::prctl(PR_SET_DUMPABLE, 0); });
  const pid_t looks = ::fork();
  if (looks == 0) {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const ShownEnvironment shown = environment_of(closed);
    errno = 0;                                   // as whatever comes between may leave it
    ::_exit(shown.why == EACCES && shown.look_for("THOLE_TASK=") == Word::untold ? 0 : 1);
  }
  int status = 0;
  ::waitpid(looks, &status, 0);
  EXPECT_EQ(status, 0);
  end(closed);
}

// Becomes a process of which no more runs than one thread that never ends: to look at it is dying, and it does not end.
[[noreturn]] void become_undead() {
  std::thread([] { for (;;) ::pause(); }).detach();
  ::syscall(SYS_exit, 0);
  std::abort();
}

pid_t undead_runner(const std::string& directory) {
  const pid_t undead = ::fork();
  if (undead == 0) {
    static auto seat = LocalLanes(directory).sit();
    become_undead();
  }
  while (!is_dying(undead)) ::sched_yield();
  return undead;
}

TEST_F(QueueSeats, ARunnerThatWasKilledAndCannotEndKeepsNobody) {
  const pid_t undead = undead_runner(directory_);
  LocalDoor door(directory_, {{"/bin/true"}, {}}, Millis{100});
  EXPECT_FALSE(door.runner());
  EXPECT_THAT(test::said([&] { door.stir(); }), testing::HasSubstr("cannot end"));
  end(undead);
}

// It would have left, and those who have told it something would have nobody.
// It closes its files first, and its tasks are its children until it has ended.
TEST_F(QueueSeats, AKilledLaneIsThereUntilItHasEnded) {
  LocalLanes lanes(directory_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NAME, lane_process_name);
    become_undead();
  }
  auto seat = lanes.take(0, 1);
  ASSERT_TRUE(seat);
  seat->record.write(seat->record->pid, child);
  seat.reset();
  while (!is_dying(child)) std::this_thread::yield();
  const auto dying = lanes.look_at(0);
  EXPECT_TRUE(dying.process && !is_readable(dying.process.get()));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(dying.process && is_readable_by(dying.process.get(), std::nullopt));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(lanes.look_at(0).process);
}

TEST_F(QueueSeats, WhoFindsTheSeatWithADyingRunnerListensToNobodyAndTakesItAfterwards) {
  const pid_t undead = undead_runner(directory_);
  const pid_t next = ::fork();
  if (next == 0) ::_exit(LocalLanes(directory_).sit() ? 0 : 1);
  const auto has_open = [&](std::string_view what) {
    return std::ranges::any_of(open_files_of(next), [&](const std::string& name) { return name.find(what) != name.npos; });
  };
  int status = -1;
  while (!has_open("[pidfd]") && ::waitpid(next, &status, WNOHANG) == 0) ::sched_yield();   // it waits for that one's end
  ASSERT_EQ(status, -1) << "it has left";
  EXPECT_FALSE(has_open("/wake"));
  EXPECT_FALSE(has_open("/runner"));
  end(undead);
  ASSERT_EQ(::waitpid(next, &status, 0), next);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Somebody has removed the file under a runner that makes it again, and still has the FIFO.
TEST_F(QueueSeats, ARunnerWhoseLockWasRemovedIsWaitedFor) {
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  std::filesystem::remove(directory_ + "/runner");
  const pid_t teller = ::fork();
  if (teller == 0) {
    LocalDoor(directory_, runner(), Millis{60'000}).stir();
    ::_exit(0);
  }
  while (!is_readable(seat->wake.get())) ::sched_yield();   // it tells whoever listens, and looks who has the seat
  EXPECT_EQ(starts(), "");
  EXPECT_TRUE(lanes.keep(*seat));
  int status = -1;
  ::waitpid(teller, &status, 0);
  EXPECT_EQ(status, 0);   // one that it started between the file and its lock has found us there, and left
}

// A record lock goes with any descriptor of its file that its process closes.
TEST_F(QueueSeats, TheRunnerKeepsItsLockWhateverItDoesWithTheFile) {
  const std::string file = directory_ + "/runner", aside = directory_ + "/aside";
  LocalLanes lanes(directory_);
  auto seat = lanes.sit();
  ASSERT_TRUE(seat);
  LocalDoor door(directory_, runner());
  // What another process sees.
  const auto is_kept = [&] {
    const pid_t other = ::fork();
    if (other == 0) {
      const SeatLook look = look_at_seat(file);
      ::_exit(look.state == SeatLook::kept && look.pid == ::getppid() ? 0 : 1);
    }
    int status = -1;
    ::waitpid(other, &status, 0);
    return status == 0;
  };
  ASSERT_TRUE(is_kept());
  const std::map<std::string, std::function<void()>> ways = {
      {"keep", [&] { EXPECT_TRUE(lanes.keep(*seat)); }},
      {"keep, of a file that cannot be looked at",
       [&] { test::where_no_path_can_be_seen(ENOMEM, [&] { EXPECT_TRUE(lanes.keep(*seat)); }); }},
      // It was away when it was looked at, and is there again when it is opened.
      {"take again", [&] { EXPECT_TRUE(take_seat(file, seat->lock)); }},
      {"away and back", [&] {
         std::filesystem::rename(file, aside);
         std::filesystem::rename(aside, file);
         EXPECT_TRUE(lanes.keep(*seat));
       }},
      {"sit", [&] { EXPECT_FALSE(lanes.sit()); }},
      {"look", [&] { EXPECT_EQ(look_at_seat(file).pid, ::getpid()); }},
      {"check", [&] { check_seat(file); }},
      {"runner", [&] { EXPECT_EQ(door.runner(), ::getpid()); }},
      {"runner_end", [&] { EXPECT_TRUE(door.runner_end()); }},
      {"stir", [&] { door.stir(); }},
      {"look at lanes", [&] { lanes.look(); }},
      {"fork", [&] {
         const pid_t lane = lanes.fork(*lanes.take(0, 1), *seat, [](port::LaneSeat&) { return 0; });
         ::waitpid(lane, nullptr, 0);
       }},
      {"removed", [&] {
         std::filesystem::remove(file);
         EXPECT_TRUE(lanes.keep(*seat));
       }},
  };
  for (const auto& [way, does] : ways) {
    does();
    EXPECT_TRUE(is_kept()) << way;
  }
  EXPECT_EQ(starts(), "");
  seat.reset();
  EXPECT_EQ(look_at_seat(file).state, SeatLook::empty);
}

// Somebody has removed its FIFO, and it does not see it.
TEST_F(QueueSeats, ARunnerThatDoesNotListenIsToldOf) {
  const pid_t deaf = child_that([&] { static auto seat = LocalLanes(directory_).sit(); });
  std::filesystem::remove(directory_ + "/wake");
  LocalDoor door(directory_, runner(), Millis{100});
  EXPECT_THAT(test::said([&] { door.stir(); }), testing::HasSubstr("does not listen"));
  EXPECT_EQ(starts(), "") << "it could not sit";
  end(deaf);
}

TEST_F(QueueSeats, AnOrderForALaneThatWasKilledGoesToTheRunnerThoughSomebodyHasItsMail) {
  const auto seat = LocalLanes(directory_).take(0, 1);
  seat->record.write(seat->record->pid, ::getpid());
  LocalDoor door(directory_, runner(), Millis{60'000});
  door.nudge(0);
  EXPECT_TRUE(is_readable(seat->mail.get()));
  EXPECT_EQ(starts(), "");
  const pid_t lane = child_that([] {});
  seat->record.write(seat->record->pid, lane);
  end(lane);
  door.nudge(0);
  EXPECT_EQ(starts(), "x\n");
}

// The runner notes that it was started, and sits when its starter has gone.
TEST_F(QueueSeats, OfManyWhoFindNoRunnerOneStartsIt) {
  QueueFiles(directory_).open_wake();                      // made; nobody reads it
  std::atomic<unsigned> told = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 20; ++i)
    waiters.emplace_back([&] {
      LocalDoor(directory_, runner(), Millis{60'000}).stir();
      ++told;
    });
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(told, 20u);
  EXPECT_EQ(starts(), "x\n");
}

// Its end is seen; a day would not be waited for it.
TEST_F(QueueSeats, ARunnerThatEndsAtOnceIsToldOf) {
  const BareCommand runner{{"/bin/sh", "-c", "true & echo $! >&0; wait"}, {"PATH=" + std::string(::getenv("PATH"))}};
  LocalDoor door(directory_, runner, Millis{24 * 3600 * 1000});
  EXPECT_THAT(test::said([&] { door.stir(); }),
              testing::AllOf(testing::HasSubstr("ended at once"), testing::HasSubstr(directory_ + "/runner.log")));
}

TEST_F(QueueSeats, WhatIsNoFifoIsNobodyThatListens) {
  std::ofstream(directory_ + "/wake") << "x";
  const QueueFiles files(directory_);
  EXPECT_FALSE(files.watch_runner());
  EXPECT_FALSE(files.tell_runner());
  EXPECT_THAT(test::said([&] { files.open_wake(); }), testing::HasSubstr("this is no FIFO"));
  EXPECT_EQ(read_file(directory_ + "/wake", 10).value_or(""), "x");
}

// A starter that was stopped keeps nobody for long.
TEST_F(QueueSeats, WhoIsStoppedWhileHeStartsARunnerKeepsNobodyForEver) {
  const Fd stopped = QueueFiles(directory_).open_start();
  ASSERT_EQ(::flock(stopped.get(), LOCK_EX | LOCK_NB), 0);
  LocalDoor door(directory_, {{"/bin/sh", "-c", "echo x >> " + directory_ + "/starts"}, {}}, Millis{100});
  EXPECT_THAT(test::said([&] { door.stir(); }), testing::HasSubstr("does not come up"));
  EXPECT_EQ(read_file(directory_ + "/starts", 1000).value_or(""), "x\n");
}

// Of one in another pid namespace.
void note_that_it_sees_less(const std::string& directory) {
  std::ofstream(directory + "/unseen") << "from 1 0\nunseen 1 1 " << pid_namespace() << " 0 0 - 2-2 it is elsewhere\n.\n";
}

TEST_F(QueueSeats, WhoOnlyLooksWaitsForNoRunnerThatDoesNotLeave) {
  if (!in_first_user_namespace()) GTEST_SKIP() << "in a user namespace nobody sees more";
  const pid_t deaf = child_that([&] { static auto seat = LocalLanes(directory_).sit(); });
  note_that_it_sees_less(directory_);
  const auto none = [](const auto&) { return std::vector<std::string>(); };
  LocalDoor patient(directory_, runner(), Millis{24 * 3600 * 1000});
  EXPECT_TRUE(patient.relieve(none, false));     // returns
  EXPECT_EQ(starts(), "x\n") << "by one that asks it to leave";
  LocalDoor door(directory_, runner(), Millis{100});
  EXPECT_THAT(test::said([&] { door.relieve(none, true); }),
              testing::AllOf(testing::HasSubstr("does not leave"), testing::HasSubstr(fmt::format("process {}", deaf))));
  ::kill(deaf, SIGSTOP);
  ::waitpid(deaf, nullptr, WUNTRACED);
  ::unlink((directory_ + "/unseen").c_str());
  door.relieve(none, true);
  EXPECT_EQ(starts(), "x\nx\n") << "what it sees is not known";
  end(deaf);
}

TEST_F(QueueSeats, ARunnerThatSeesMoreHasTheOtherLeaveAndKeepsWhoStartsOneWaiting) {
  if (!in_first_user_namespace()) GTEST_SKIP() << "in a user namespace nobody sees more";
  const pid_t other = child_that([&] {
    static auto seat = LocalLanes(directory_).sit();
    std::thread([] {
      while (!pokes_of(seat->wake.get()).to_leave) ::usleep(1000);
      seat.reset();
    }).detach();
  });
  EXPECT_FALSE(LocalLanes(directory_, Millis{0}).relieve()) << "it has told nothing";
  note_that_it_sees_less(directory_);
  LocalLanes lanes(directory_, Millis{24 * 3600 * 1000});
  EXPECT_FALSE(LocalLanes(directory_).is_awaited());
  EXPECT_TRUE(lanes.relieve());
  EXPECT_TRUE(LocalLanes(directory_).is_awaited());
  const Fd start = QueueFiles(directory_).open_start();
  EXPECT_NE(::flock(start.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(lanes.sit());
  EXPECT_EQ(::flock(start.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_FALSE(LocalLanes(directory_).relieve()) << "somebody else is at it";
  end(other);
}

TEST_F(QueueSeats, ARunnerElsewhereThatHasNotToldWhatItSeesIsTakenToSeeNothing) {
  int sits[2], stays[2];
  ASSERT_EQ(::pipe(sits), 0);
  ASSERT_EQ(::pipe(stays), 0);
  const pid_t there = ::fork();
  if (there == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(0);
    if (const pid_t first = ::fork(); first == 0) {
      const auto seat = LocalLanes(directory_).sit();
      char byte = 0;
      static_cast<void>(::write(sits[1], &byte, 1));
      ::close(stays[1]);
      static_cast<void>(::read(stays[0], &byte, 1));
      ::_exit(0);
    } else {
      for (const int fd : {sits[1], stays[1]}) ::close(fd);
      ::waitpid(first, nullptr, 0);
    }
    ::_exit(0);
  }
  ::close(sits[1]);
  char byte = 0;
  const bool has_namespaces = ::read(sits[0], &byte, 1) == 1;
  model::Task task;
  task.job = task.runs = 1;
  const auto unseen = LocalDoor(directory_, {}).unseen(task, "1.0.1.of-nobody@");
  std::ofstream(directory_ + "/unseen") << "from 1 0\n.\n";
  const auto told = LocalDoor(directory_, {}).unseen(task, "1.0.1.of-nobody@");
  ::close(stays[1]);
  ::waitpid(there, nullptr, 0);
  for (const int fd : {sits[0], stays[0]}) ::close(fd);
  if (!has_namespaces) GTEST_SKIP() << "no namespaces of one's own can be made here";
  EXPECT_FALSE(told) << "it sees everything";
  ASSERT_TRUE(unseen);
  EXPECT_THAT(unseen->why, testing::HasSubstr("has not told"));
}

}  // namespace
}  // namespace thole::host::queue_tests
