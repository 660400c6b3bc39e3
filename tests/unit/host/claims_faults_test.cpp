// Damage, shortage and stuck neighbours: they cost order or earn a clear error, never a second owner.
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <fstream>
#include <random>

#include "base/byte_range.hpp"
#include "base/text.hpp"
#include "host/claims/init.hpp"
#include "host/claims/layout.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

struct Faults : ClaimStoreTest {
  void scribble(const std::string& file, unsigned seed) {
    std::mt19937_64 random(seed);
    Fd fd = open_at(AT_FDCWD, (directory + "/" + file).c_str(), O_WRONLY);
    std::vector<std::uint64_t> words(9000);
    for (auto& word : words) word = random();
    ASSERT_GT(::pwrite(fd.get(), words.data(), words.size() * 8, 0), 0);
  }
  void lose_notes() {
    for (const auto& file : std::filesystem::directory_iterator(directory + "/notes")) std::filesystem::remove(file);
  }
  void cut(const std::string& file, off_t size) { ASSERT_EQ(::truncate((directory + "/" + file).c_str(), size), 0); }
};

TEST_F(Faults, WhateverIsInTheQueueEverybodyIsServed) {
  auto store = open();
  std::optional<port::Claim> held;
  for (unsigned round = 0; round < 4; ++round) {
    held = claim(*store, entry({"GPU-0"}));
    std::vector<std::unique_ptr<Child>> waiters;
    for (unsigned i = 0; i < 4; ++i) {
      waiters.push_back(std::make_unique<Child>([&](Child& self) {
        const Served served(*store, entry({"GPU-0"}), held, self);
        return 0;
      }));
      ASSERT_EQ(waiters.back()->hear(), 'w');
    }
    if (round == 0) scribble("queue", 1);
    if (round == 1) cut("queue", 0);
    if (round == 2) cut("queue", 64 + 64 + 32);
    if (round == 3) scribble("queue", 2), scribble("who", 3);
    held.reset();
    for (auto& waiter : waiters) EXPECT_EQ(waiter->wait(), 0) << "round " << round;
  }
}

TEST_F(Faults, WhateverIsInWhoNobodyIsShownOrGivenAnythingElse) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  for (unsigned way = 0; way < 2; ++way) {
    if (way == 0) scribble("who", 5);
    else cut("who", 0);
    EXPECT_FALSE(try_claim(*open(), entry({"GPU-0"})));
    EXPECT_EQ(store->own_claim(held->id()), held->keys());
    auto holdings = store->holdings();
    ASSERT_EQ(holdings.size(), 1u);
    EXPECT_TRUE(holdings[0].held && holdings[0].verified);
    EXPECT_EQ(holdings[0].id, held->id());
  }
}

TEST_F(Faults, AMissingNoteDoesNotMakeAHeldUnitFreeAndNobodyIsNamedForIt) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  lose_notes();
  EXPECT_FALSE(try_claim(*open(), entry({"GPU-0"})));
  auto holdings = store->holdings();
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_TRUE(holdings[0].held);
  EXPECT_FALSE(holdings[0].verified);
  EXPECT_EQ(holdings[0].id, "");
  EXPECT_EQ(holdings[0].pid, ::getpid()) << "the kernel knows";
}

TEST_F(Faults, AMarkThatIsWipedPutsNobodyBesideASharerWhoDidNotAgree) {
  auto store = open();
  auto wanted = sharer({"GPU-0"}, 1000);
  auto held = try_claim(*store, wanted);
  cut("who", 0);
  auto seen = [&](const port::Entry& mine) {
    std::size_t holders = 0;
    (void)store->enter(mine)->step([&](const model::QueueView& queue, auto&&...) -> model::Decision {
      holders = queue.slots[0].holders.size();
      return model::Refuse{};
    });
    return holders;
  };
  EXPECT_EQ(seen(wanted), 1u) << "a sharer looks for himself";
}

TEST_F(Faults, WithoutANoteNothingIsSharedAndTheRestGoesOn) {
  auto store = open();
  std::filesystem::remove_all(directory + "/notes");
  auto looking = find_claim_store(options(StateLocation::named(directory)));   // makes nothing
  EXPECT_NE(trouble([&] { try_claim(*looking, sharer({"GPU-0"}, 1000)); }).find("nothing is shared without one"),
            std::string::npos);
  auto whole = try_claim(*looking, entry({"GPU-0", "GPU-1"}, 2));
  ASSERT_TRUE(whole) << "and the failed share has left nothing locked";
  EXPECT_EQ(looking->own_claim(whole->id()), whole->keys()) << "its note lies in its own directory";
  EXPECT_TRUE(find_claim_store(options(StateLocation::named(directory)))->own_claim(whole->id()) == whole->keys());
  whole.reset();
  EXPECT_TRUE(looking->own_claim("0123456789abcdef").empty());
  open();
  EXPECT_TRUE(try_claim(*open(), sharer({"GPU-0"}, 1000))) << "its owner makes notes/ again";
}

// One who goes on without alloc, as everybody does who has waited for it too long: he takes what he wants between my look and
// my note.
std::function<void()> at_note;

TEST_F(Faults, WhoComesWhileASharerTakesHisBerthIsSeenBeforeTheClaimIsGiven) {
  auto made = options(StateLocation::named(directory));
  made.step_hook = [](const char* step) {
    if (std::string(step) == "slots locked" && at_note) std::exchange(at_note, nullptr)();
  };
  made.patience = {Millis(20), Millis(100)};
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept ? "alloc is kept" : "in order");
    auto store = open_claim_store(made);
    const Fd alloc = open_at(AT_FDCWD, (directory + "/alloc").c_str(), O_RDWR);
    if (kept) {
      ASSERT_EQ(::flock(alloc.get(), LOCK_EX), 0);
    }
    std::vector<Fd> rival;
    at_note = [&] {
      for (const char* node : {"/gpu.GPU-0", "/share.GPU-0.9"}) {
        rival.push_back(open_at(AT_FDCWD, (directory + node).c_str(), O_RDWR | O_NONBLOCK));
        EXPECT_EQ(::flock(rival.back().get(), (node[1] == 'g' ? LOCK_SH : LOCK_EX) | LOCK_NB), 0);
      }
    };
    unsigned asked = 0;
    auto won = store->enter(sharer({"GPU-0"}, 1000))->step([&](const model::QueueView& queue, auto&&...) -> model::Decision {
      if (++asked == 1) {
        EXPECT_TRUE(queue.slots[0].holders.empty());
        return model::Take{{0}, {}};
      }
      EXPECT_EQ(queue.slots[0].holders.size(), 1u);
      if (!queue.slots[0].holders.empty()) {
        EXPECT_FALSE(queue.slots[0].holders[0].memory_mib) << "of unknown size: the unit is full";
      }
      return model::Wait{};
    });
    EXPECT_EQ(rival.size(), 2u);
    EXPECT_FALSE(won);
    EXPECT_GE(asked, 2u);
  }
}

TEST_F(Faults, ADirectoryReplacedWhileAUnitIsTakenOfItGivesNoSecondOwner) {
  auto made = options(StateLocation::named(directory));
  made.step_hook = [](const char* step) {
    if (std::string(step) == "slots locked" && at_note) std::exchange(at_note, nullptr)();
  };
  auto store = open_claim_store(made);
  std::optional<port::Claim> others;
  at_note = [&] {
    std::filesystem::rename(directory, directory + ".old");
    others = try_claim(*open(), entry({"GPU-0"}));
  };
  const auto won = try_claim(*store, entry({"GPU-0"}));
  EXPECT_TRUE(others) << "it is the first in the directory that has the name now";
  EXPECT_FALSE(won);
}

// `thole init` makes nodes anew: between the trial lock, which the taker keeps, and the taking.
TEST_F(Faults, ANodeThatLostItsNameOrIsBeingTakenAwayIsNoClaim) {
  auto store = open();
  const std::string node = directory + "/gpu.GPU-0";
  const auto claim_while = [&](const std::function<void()>& change) {
    try_claim(*store, entry({"GPU-0"}));                    // leaves a mark: the next look tries the lock
    unsigned asked = 0;
    auto won = store->enter(entry({"GPU-0"}))->step([&](auto&&...) -> model::Decision {
      if (++asked == 1) change();
      return asked < 3 ? model::Decision(model::Take{{0}, {}}) : model::Decision(model::Refuse{});
    });
    EXPECT_GE(asked, 2u) << "the first lock was of no use";
    return won;
  };
  const Fd taking = open_at(AT_FDCWD, (directory + "/" + taking_file).c_str(), O_RDWR | O_CREAT, 0644);
  struct flock lives = byte_range(F_WRLCK, 0, 1);            // of who has marked it
  ASSERT_EQ(::fcntl(taking.get(), F_OFD_SETLK, &lives), 0);
  EXPECT_FALSE(claim_while([&] { ASSERT_EQ(::chmod(node.c_str(), 0600 | S_ISUID), 0); }));
  ASSERT_EQ(::chmod(node.c_str(), 0600), 0);
  const auto held = claim_while([&] {
    ASSERT_EQ(::mkfifo((node + ".new").c_str(), 0600), 0);
    ASSERT_EQ(::rename((node + ".new").c_str(), node.c_str()), 0);
  });
  EXPECT_TRUE(held) << "of what has the name now";
  EXPECT_FALSE(try_claim(*open(), entry({"GPU-0"})));
}

// `thole init` with another group makes berths anew.
TEST_F(Faults, AShareThatLostItsNameIsNoBerth) {
  auto made = options(StateLocation::named(directory));
  const std::string berth = directory + "/share.GPU-0.0";
  made.step_hook = [](const char* step) {
    if (std::string(step) == "share opened" && at_note) std::exchange(at_note, nullptr)();
  };
  at_note = [&] {
    ASSERT_EQ(::mkfifo((berth + ".new").c_str(), 0600), 0);
    ASSERT_EQ(::rename((berth + ".new").c_str(), berth.c_str()), 0);
  };
  auto store = open_claim_store(made);
  auto held = try_claim(*store, sharer({"GPU-0"}, 1000));
  ASSERT_TRUE(held);
  EXPECT_FALSE(at_note) << "it was replaced between the opening and the lock";
  auto other = try_claim(*open_claim_store(options(StateLocation::named(directory))), sharer({"GPU-0"}, 1000));
  ASSERT_TRUE(other);
  EXPECT_EQ(store->holdings().size(), 2u) << "both are seen";
}

TEST_F(Faults, OfASharerWhoseNoteIsLostTheTermsAreKnown) {
  auto store = open();
  auto held = try_claim(*store, sharer({"GPU-0"}, 1000));
  lose_notes();
  auto mine = sharer({"GPU-0"}, 1000);
  std::optional<model::SlotHolder> seen;
  (void)store->enter(mine)->step([&](const model::QueueView& queue, auto&&...) -> model::Decision {
    EXPECT_EQ(queue.slots[0].holders.size(), 1u);
    seen = queue.slots[0].holders.at(0);
    return model::Refuse{};
  });
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->memory_mib, 1000u);
  EXPECT_FALSE(seen->share_with_any);
  EXPECT_NE(seen->uid, ::geteuid()) << "whose it is nobody says";
}

TEST_F(Faults, AMissingNodeNamesInitAndIsNotMadeAnewUnderALivingClaim) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  std::filesystem::remove(directory + "/gpu.GPU-0");
  EXPECT_NE(trouble([&] { try_claim(*open(), entry({"GPU-0"})); }).find(" init makes its nodes anew"), std::string::npos);
  EXPECT_TRUE(try_claim(*store, entry({"GPU-1"}))) << "the others go on";
  auto again = [&] { init_claims(StateLocation::named(directory), units); };
  EXPECT_NE(trouble(again).find("in use"), std::string::npos);
  held.reset();
  again();
  EXPECT_TRUE(try_claim(*store, entry({"GPU-0"})));
}

TEST_F(Faults, ADirectoryDeletedUnderAClaimGivesNoSecondOwner) {
  auto store = open(), other = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  std::filesystem::remove_all(directory);
  EXPECT_NE(trouble([&] { open(); }).find("deleted"), std::string::npos);
  EXPECT_NE(trouble([&] { try_claim(*other, entry({"GPU-0"})); }).find("deleted"), std::string::npos);
  std::filesystem::create_directory(directory);   // by hand: the store does not go on in the old one
  held.reset();
  EXPECT_TRUE(try_claim(*other, entry({"GPU-0"})));
  EXPECT_EQ(other->holdings().size(), 0u);
}

TEST_F(Faults, AWaiterFollowsToTheDirectoryThatTookOver) {
  StatePaths paths{folder.path + "/run", {folder.path + "/lock"}, static_cast<uid_t>(-2)};
  auto made = options(StateLocation::common(paths));
  auto store = open_claim_store(made);
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto mine = entry({"GPU-0"});
  auto ticket = store->enter(mine);
  EXPECT_FALSE(ticket->step(fifo_rule(mine)));
  std::filesystem::rename(folder.path + "/lock", folder.path + "/gone");
  EXPECT_NE(trouble([&] { ticket->step(fifo_rule(mine)); }).find("deleted"), std::string::npos);
  held.reset();
  EXPECT_TRUE(ticket->step(fifo_rule(mine)));
  EXPECT_EQ(store->about().directory, folder.path + "/lock");
}

TEST_F(Faults, APlantedLinkInPlaceOfANodeIsNotFollowed) {
  auto store = open();
  std::filesystem::remove(directory + "/gpu.GPU-0");
  std::ofstream(folder.path + "/victim") << "x";
  std::filesystem::create_symlink(folder.path + "/victim", directory + "/gpu.GPU-0");
  EXPECT_NE(trouble([&] { try_claim(*store, entry({"GPU-0"})); }).find("gpu.GPU-0"), std::string::npos);
  std::filesystem::remove(directory + "/gpu.GPU-0");
  std::filesystem::copy_file(folder.path + "/victim", directory + "/gpu.GPU-0");
  SCOPED_TRACE("nor is a plain file a lock");
  trouble([&] { try_claim(*store, entry({"GPU-0"})); });
}

TEST_F(Faults, TheDescriptorLimitIsAnErrorAndNeitherBusyNorDead) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-0"}));
  auto waiter = store->enter(entry({"GPU-0"}));
  EXPECT_FALSE(waiter->step(fifo_rule(entry({"GPU-0"}))));
  Child child([&](Child&) {
    auto own = open();
    int used = ::dup(0);                                     // below it every number is taken
    unsigned errors = 0;
    for (int spare = 0; spare < 12; ++spare) {
      rlimit limit{static_cast<rlim_t>(used + 1 + spare), static_cast<rlim_t>(used + 1000)};
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 4;
      try {
        auto late = own->enter(entry({"GPU-0", "GPU-1"}, 2));
        if (late->step(fifo_rule(entry({"GPU-0", "GPU-1"}, 2)))) return 1;
      } catch (const Error& error) {
        if (error.full().find("ulimit -n") == std::string::npos) return 2;
        ++errors;
      }
    }
    return errors >= 2 ? 0 : 3;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(store->waiting().size(), 1u) << "the waiter that could not be looked at was not taken for dead";
}

TEST_F(Faults, WhoeverIsStuckInAllocIsNamedAndStatusStillAnswers) {
  auto impatient = options(StateLocation::named(directory));
  impatient.patience = impatient.look_patience = {Millis(50), Millis(200)};
  auto store = open_claim_store(impatient);
  auto held = try_claim(*store, entry({"GPU-0"}));
  Child stuck([&](Child& self) {
    held.reset();
    Fd alloc = open_at(AT_FDCWD, (directory + "/alloc").c_str(), O_RDWR);
    ::flock(alloc.get(), LOCK_EX);
    self.say('l');
    ::raise(SIGSTOP);
    return 0;
  });
  ASSERT_EQ(stuck.hear(), 'l');
  std::string told;
  auto wanted = entry({"GPU-0", "GPU-1"}, 1);
  wanted.caution = [&](const std::string& text) { told = text; };
  auto free_one = try_claim(*store, wanted);
  ASSERT_TRUE(free_one) << "the claim goes on without order";
  EXPECT_EQ(free_one->keys(), std::vector<std::string>{"GPU-1"});
  EXPECT_NE(told.find("pid " + std::to_string(stuck.pid())), std::string::npos) << told;
  free_one.reset();
  auto holdings = store->holdings();
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_EQ(holdings[0].pid, ::getpid());
  EXPECT_NE(store->about().kept_by.find("pid " + std::to_string(stuck.pid())), std::string::npos) << store->about().kept_by;
  stuck.kill(SIGKILL);
  stuck.wait();
  EXPECT_TRUE(try_claim(*store, entry({"GPU-1"})));
}

TEST_F(Faults, NoSignalStopsAProcessInsideOfAlloc) {
  auto made = options(StateLocation::named(directory));
  made.step_hook = [](const char* step) {
    if (std::string(step) != "noted") return;
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (int signal : {SIGTSTP, SIGTTIN, SIGTTOU, SIGINT, SIGTERM, SIGHUP, SIGALRM})
      EXPECT_EQ(sigismember(&blocked, signal), 1);
  };
  auto store = open_claim_store(made);
  EXPECT_TRUE(try_claim(*store, entry({"GPU-0"})));
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGTSTP), 0);
}

TEST_F(Faults, AFullDiskCostsOrderAndSaysSo) {
  Child child([&](Child&) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    std::string small = folder.path + "/small";
    std::filesystem::create_directory(small);
    if (::mount("none", small.c_str(), "tmpfs", 0, "size=16k,mode=755") != 0) return 77;
    auto store = open_claim_store(options(StateLocation::named(small + "/state")));
    std::ofstream(small + "/filler") << std::string(65536, 'x');
    auto held = try_claim(*store, entry({"GPU-0"}));
    if (!held || try_claim(*store, entry({"GPU-0"}))) return 1;
    auto mine = entry({"GPU-0"});
    auto first = store->enter(mine), second = store->enter(mine);
    if (first->step(fifo_rule(mine)) || second->step(fifo_rule(mine))) return 2;
    held.reset();
    first.reset();   // who does not come when it is his turn is passed by the rule of app (plan/turn/grace.hpp), not here
    second.reset();
    auto won = claim(*store, mine);
    if (!won) return 3;
    for (const std::string& caution : store->about().cautions)
      if (caution.find("disk is full") != std::string::npos || caution.find("no note could be made") != std::string::npos)
        return 0;
    return 4;
  });
  int status = child.wait();
  if (status == 77) GTEST_SKIP() << "needs the right to mount a file system (root)";
  EXPECT_EQ(status, 0);
}

TEST_F(Faults, AUnitThatIsNewIsAddedByTheOwnerAlsoAfterALook) {
  auto store = open();
  auto looking = find_claim_store(options(StateLocation::named(directory)));
  EXPECT_TRUE(looking->holdings().empty());
  auto held = try_claim(*looking, entry({"GPU-new", "GPU-newer"}, 2));
  EXPECT_TRUE(held);
  EXPECT_FALSE(try_claim(*store, entry({"GPU-new"}))) << "the same unit for a store that was open before";
}

TEST_F(Faults, AUnitThatIsNewInAnothersDirectoryNamesWhoAddsIt) {
  Child child([&](Child&) {
    auto store = open();
    ::chmod(folder.path.c_str(), 0755);
    ::chmod(directory.c_str(), 0755);
    if (::setuid(65534) != 0) return 77;
    for (bool look : {true, false}) {
      auto mine = options(StateLocation::named(directory));
      auto other = look ? find_claim_store(mine) : open_claim_store(mine);
      const std::string told = trouble([&] { other->enter(entry({"GPU-new"})); });
      if (told.find("thole --state-dir " + directory + " init") == std::string::npos) return 1;
    }
    return 0;
  });
  const int status = child.wait();
  if (status == 77) GTEST_SKIP() << "needs the right to become another user (root)";
  EXPECT_EQ(status, 0);
}

TEST_F(Faults, InitRecyclesTheSlotsOfVanishedUnitsThatNobodyHolds) {
  auto store = open();
  auto held = try_claim(*store, entry({"GPU-1"}));
  auto report = init_claims(StateLocation::named(directory), {"GPU-0", "GPU-9"});
  EXPECT_EQ(report.freed, 2u) << "GPU-2 and GPU-3, not GPU-1 that is held";
  EXPECT_EQ(report.slots, 3u);
  EXPECT_TRUE(try_claim(*store, entry({"GPU-9"})));
  EXPECT_FALSE(try_claim(*store, entry({"GPU-1"})));
}

// One that is merely locked is known by its node, should it come back; a claim without its slot could not be released.
TEST_F(Faults, WhereNoSlotIsFreeAClaimOnAVanishedUnitKeepsItsOwn) {
  const StatePaths paths{folder.path + "/run", {folder.path + "/lock", folder.path + "/tmp"}, ::geteuid()};
  const StateLocation machine = StateLocation::common(paths);
  units.clear();
  for (std::size_t number = 0; number < model::max_slots; ++number) units.push_back(fmt::format("GPU-{}", number));
  init_claims(machine, units);
  auto claimed = try_claim(*open_claim_store(options(machine)), entry({"GPU-0"}));
  ASSERT_TRUE(claimed);
  const Fd locked = open_at(AT_FDCWD, (paths.system + "/gpu.GPU-1").c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_EQ(::flock(locked.get(), LOCK_EX | LOCK_NB), 0);
  units.erase(units.begin(), units.begin() + 2);
  units.push_back("GPU-new");
  init_claims(machine, units);
  const auto store = open_claim_store(options(machine));
  EXPECT_EQ(store->own_claim(claimed->id()), claimed->keys());
  EXPECT_TRUE(try_claim(*store, entry({"GPU-new"})));
}

}  // namespace
}  // namespace thole::host::claim_tests
