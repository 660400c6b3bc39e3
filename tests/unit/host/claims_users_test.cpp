// Between users: each sentence of the guarantee with `thole init`, with two uids that exist on no machine. Needs root.
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "host/claims/init.hpp"
#include "host/claims/notes.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host::claim_tests {
namespace {

InitWish gate(gid_t group) {
  InitWish wish;
  wish.group = group;
  return wish;
}

struct Users : ClaimStoreTest {
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
    init_claims(location(), units);
  }
  StateLocation location() { return StateLocation::common({system, {folder.path + "/lock"}, 0}); }
  std::unique_ptr<port::ClaimStore> store() { return open_claim_store(options(location())); }

  // A user who claims, says 'c' (or 'n'), and holds until told.
  std::unique_ptr<Child> holder(uid_t uid, port::Entry wanted) {
    return std::make_unique<Child>([this, uid, wanted](Child& self) {
      become(uid);
      auto own = store();
      auto won = try_claim(*own, wanted);
      self.say(won ? 'c' : 'n');
      self.hear();
      return 0;
    });
  }
  // Bert, who keeps a note of his own that says this, says 'f' (or 'n'), and ends when told.
  std::unique_ptr<Child> forger(const std::function<void(Note&, const SlotKeys&)>& forge) {
    return std::make_unique<Child>([this, forge](Child& self) {
      become(bert);
      StateDir there = *find_state_dir(location());
      SlotKeys keys = parse_devices(*read_file(system + "/devices"));
      Note forged;
      forged.id = "00000000000000bb";
      forged.process = own_identity();
      forge(forged, keys);
      Fd notes = open_notes(there);
      Fd live = OwnNotes(notes.get(), bert, number_of(there)).put(forged, keys, -1);
      self.say(live ? 'f' : 'n');
      self.hear();
      return 0;
    });
  }
  // Who holds the first unit, as one sees it who reads the notes at once.
  std::vector<model::SlotHolder> holders_seen() {
    std::vector<model::SlotHolder> holders;
    auto wanted = sharer({"GPU-0"}, 1000);
    (void)store()->enter(wanted)->step([&](const model::QueueView& queue, auto&&...) -> model::Decision {
      holders = queue.slots[0].holders;
      return model::Refuse{};
    });
    return holders;
  }
  // What a user finds when he tries something: the child's exit status.
  int as(uid_t uid, const std::function<int()>& body) {
    return Child([&](Child&) {
      become(uid);
      return body();
    }).wait();
  }

  std::string system = folder.path + "/run";
  int expected_ = 0;
};

TEST_F(Users, NobodyBecomesASecondOwner) {
  auto first = holder(anna, entry({"GPU-0"}));
  ASSERT_EQ(first->hear(), 'c');
  auto second = holder(bert, entry({"GPU-0"}));
  EXPECT_EQ(second->hear(), 'n');
  auto third = holder(bert, entry({"GPU-1"}));
  EXPECT_EQ(third->hear(), 'c');
}

TEST_F(Users, HoldersAndWaitersAreNamedByTheKernelsWord) {
  auto first = holder(anna, entry({"GPU-0"}));
  ASSERT_EQ(first->hear(), 'c');
  Child waiter([this](Child& self) {
    become(bert);
    auto own = store();
    auto mine = entry({"GPU-0"});
    auto ticket = own->enter(mine);
    ticket->step(fifo_rule(mine));
    self.say('w');
    self.hear();
    return 0;
  });
  ASSERT_EQ(waiter.hear(), 'w');
  auto own = store();
  ASSERT_EQ(own->holdings().size(), 1u);
  EXPECT_EQ(own->holdings()[0].uid, anna);
  EXPECT_TRUE(own->holdings()[0].verified);
  ASSERT_EQ(own->waiting().size(), 1u);
  EXPECT_EQ(own->waiting()[0].uid, bert);
}

TEST_F(Users, NobodyFreesOrReplacesAnothersLock) {
  auto first = holder(anna, entry({"GPU-0"}));
  ASSERT_EQ(first->hear(), 'c');
  EXPECT_EQ(as(bert, [&] {
    std::string node = system + "/gpu.GPU-0";
    if (::unlink(node.c_str()) == 0 || errno != EACCES) return 1;
    if (::rename(node.c_str(), (system + "/x").c_str()) == 0 || errno != EACCES) return 2;
    if (::mkfifo((system + "/gpu.GPU-7").c_str(), 0666) == 0) return 3;
    if (::rmdir(system.c_str()) == 0 || ::rename(system.c_str(), (system + ".old").c_str()) == 0) return 4;
    if (::chmod(node.c_str(), 0777) == 0) return 5;
    Fd fd = open_at(AT_FDCWD, node.c_str(), O_RDWR | O_NONBLOCK);
    ::flock(fd.get(), LOCK_UN);                             // of his own description: frees nothing
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return 6;
    Fd devices = open_at(AT_FDCWD, (system + "/devices").c_str(), O_WRONLY);
    return devices ? 7 : 0;
  }), 0);
  EXPECT_FALSE(try_claim(*store(), entry({"GPU-0"})));
}

TEST_F(Users, ForgingTheSharedRecordsCostsNoExclusion) {
  auto first = holder(anna, entry({"GPU-0"}));
  ASSERT_EQ(first->hear(), 'c');
  EXPECT_EQ(as(bert, [&] {
    for (const char* name : {"/queue", "/who"})
      if (::truncate((system + name).c_str(), 0) != 0) return 1;
    auto own = store();
    if (try_claim(*own, entry({"GPU-0"}))) return 2;
    return try_claim(*own, entry({"GPU-1"})) ? 0 : 3;
  }), 0);
}

TEST_F(Users, NobodySpeaksForAnothersShare) {
  auto first = holder(anna, sharer({"GPU-0"}, 1000));
  ASSERT_EQ(first->hear(), 'c');
  auto seen = [&] {                                           // by a third user
    std::optional<std::uint64_t> memory;
    EXPECT_EQ(as(60003, [&] {
      auto own = store();
      std::size_t holders = 0;
      (void)own->enter(sharer({"GPU-0"}, 1000))->step([&](const model::QueueView& queue, auto&&...) -> model::Decision {
        holders = queue.slots[0].holders.size();
        if (holders == 1) memory = queue.slots[0].holders[0].memory_mib;
        return model::Refuse{};
      });
      return holders != 1 ? 9 : memory == 1000u ? 1 : memory ? 2 : 0;
    }), expected_) << "of anna's share";
  };
  expected_ = 1;
  seen();
  auto false_one = forger([](Note& forged, const SlotKeys& keys) {
    forged.shared = forged.share_with_any = true;
    forged.memory_mib = 1;
    for (unsigned slot = 0; slot < 4; ++slot)
      if (keys[slot] == "GPU-0") forged.put(slot, 1, {.inode = 4711});
  });
  ASSERT_EQ(false_one->hear(), 'f');
  seen();
  auto holdings = store()->holdings();
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_TRUE(holdings[0].verified);
  EXPECT_EQ(holdings[0].uid, anna) << "the kernel's word goes before both notes";
  EXPECT_EQ(holdings[0].memory_mib, 1000u);
}

TEST_F(Users, NobodyDeclaresAnEndForAnothersClaim) {
  auto first = holder(anna, entry({"GPU-0"}));
  ASSERT_EQ(first->hear(), 'c');
  for (const auto& file : std::filesystem::directory_iterator(system + "/notes")) std::filesystem::remove(file);
  auto false_one = forger([](Note& forged, const SlotKeys&) {
    forged.until = WallTime(Millis(253402300000000));
    forged.put(0, 0, {.inode = 4711});
  });
  ASSERT_EQ(false_one->hear(), 'f');
  const std::vector<model::SlotHolder> holders = holders_seen();
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_FALSE(holders[0].until) << "others would plan with it";
}

// Else nobody could pass others any more, and nobody be promised a start.
TEST_F(Users, NobodyHidesTheEndOfAnothersClaimByNamingIt) {
  auto wanted = entry({"GPU-0"});
  wanted.time = Seconds{3600};
  auto first = holder(anna, wanted);
  ASSERT_EQ(first->hear(), 'c');
  auto false_one = forger([](Note& forged, const SlotKeys&) { forged.put(0, 0, {.inode = 4711}); });
  ASSERT_EQ(false_one->hear(), 'f');
  const std::vector<model::SlotHolder> holders = holders_seen();
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].uid, anna);
  EXPECT_TRUE(holders[0].until);
}

TEST_F(Users, NobodyGivesAnotherTheUnitsOfAThird) {
  auto first = holder(anna, entry({"GPU-0"}));
  ASSERT_EQ(first->hear(), 'c');
  Child forger([&](Child& self) {                             // holds a unit of his own, under the id of anna's claim
    become(bert);
    auto won = try_claim(*store(), entry({"GPU-1"}));
    self.say(won ? 'c' : 'n');
    self.hear();
    return 0;
  });
  ASSERT_EQ(forger.hear(), 'c');
  EXPECT_EQ(as(anna, [&] {
    return store()->own_claim("0123456789abcdef") == std::vector<std::string>{"GPU-0"} ? 0 : 1;
  }), 0);
}

TEST_F(Users, AGroupIsAGate) {
  std::string gated = folder.path + "/gated";
  StateLocation there = StateLocation::common({gated, {}, 0});
  init_claims(there, units, gate(anna));
  auto claims = [&] {
    try {
      auto own = open_claim_store(options(there));
      return try_claim(*own, entry({"GPU-0"})) ? 0 : 1;
    } catch (const Error& error) {
      return error.sys_errno() == EACCES && error.full().find("group") != std::string::npos ? 50 : 2;
    }
  };
  EXPECT_EQ(as(anna, claims), 0);
  EXPECT_EQ(as(bert, claims), 50);
  init_claims(there, {"GPU-0", "GPU-5"});                   // a later device gets the same gate
  struct stat node;
  ASSERT_EQ(::stat((gated + "/gpu.GPU-5").c_str(), &node), 0);
  EXPECT_EQ(node.st_mode & 0777, 0660u);
  EXPECT_EQ(node.st_gid, anna);
}

TEST_F(Users, AUserCannotAddUnitsAndIsToldWhoCan) {
  EXPECT_EQ(as(anna, [&] {
    try {
      store()->enter(entry({"GPU-new"}));
    } catch (const Error& error) {
      return error.hint() == "sudo thole init" ? 0 : 1;
    }
    return 2;
  }), 0);
}

TEST_F(Users, WithoutRootTheFirstUsersDirectoryServesAll) {
  TemporaryFolder shared;
  ::chmod(shared.path.c_str(), 01777);
  StateLocation fallback = StateLocation::common({shared.path + "/run", {shared.path + "/lock"}, 0});
  Child first([&](Child& self) {
    become(anna);
    ::umask(077);
    auto own = open_claim_store(options(fallback));
    self.say(try_claim(*own, entry({"GPU-2"})) ? 'c' : 'n');
    auto won = try_claim(*own, entry({"GPU-0"}));
    self.say('c');
    self.hear();
    return 0;
  });
  ASSERT_EQ(first.hear(), 'c');
  ASSERT_EQ(first.hear(), 'c');
  EXPECT_EQ(as(bert, [&] {
    auto own = open_claim_store(options(fallback));
    if (own->about().kind != "fallback" || own->about().cautions.empty()) return 1;
    if (try_claim(*own, entry({"GPU-0"}))) return 2;
    return try_claim(*own, entry({"GPU-1"})) ? 0 : 3;
  }), 0);
  EXPECT_THROW(init_claims(fallback, units), Error) << "not while a claim lives there";
}

TEST_F(Users, AnotherUsersPersonalDirectoryIsNotUsed) {
  std::string root = folder.path + "/thole-60001";
  EXPECT_EQ(as(bert, [&] {
    ::mkdir("/tmp/thole-test-planted", 0755);               // where anna's own would be
    return 0;
  }), 0);
  EXPECT_EQ(as(anna, [&] {
    try {
      open_state_dir(StateLocation::personal("/tmp/thole-test-planted", "0123456789abcdef"));
    } catch (const Error&) {
      return 0;
    }
    return 1;
  }), 0);
  ::rmdir("/tmp/thole-test-planted");
}

}  // namespace
}  // namespace thole::host::claim_tests
