#include "host/claims/layout.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/made.hpp"
#include "base/text.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/lost_locks.hpp"
#include "host/claims/queue_file.hpp"
#include "unit/host/claims_fixture.hpp"

namespace thole::host {
namespace {

WrittenTicket ticket(std::uint64_t number, unsigned index) {
  WrittenTicket made;
  made.view.number = number;
  made.view.eligible.set(0).set(77).set(127);
  made.view.count = 2;
  made.view.uid = 1000;
  made.view.shared = true;
  made.view.memory_mib = 8192;
  made.view.leave = 3;
  made.view.time = Seconds(90);
  made.view.since = WallTime(Millis(1'700'000'000'000));
  made.view.max_load_permille = 705;
  made.index = index;
  made.pid = 4711;
  made.start = 99;
  return made;
}

TEST(ClaimLayout, ATicketSurvivesTheWayThroughItsRecord) {
  auto read = decode(encode(ticket(5, 3)), 3, 5);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->view.number, 5u);
  EXPECT_EQ(read->view.eligible, ticket(5, 3).view.eligible);
  EXPECT_EQ(read->view.count, 2u);
  EXPECT_EQ(read->view.leave, 3u);
  EXPECT_EQ(read->view.time, Seconds(90));
  EXPECT_EQ(read->view.since, ticket(5, 3).view.since);
  EXPECT_EQ(read->view.max_load_permille, 705);
  EXPECT_EQ(read->view.max_memory_permille, 500);
  EXPECT_TRUE(read->view.shared);
  EXPECT_EQ(read->pid, 4711u);
  for (const model::Beside beside : {model::Beside::none, model::Beside::mine, model::Beside::any}) {
    WrittenTicket other = ticket(5, 3);
    other.view.beside = beside;
    EXPECT_EQ(decode(encode(other), 3, 5)->view.beside, beside);
  }
}

TEST(ClaimLayout, ANumberFromTheFutureIsNobodys) {
  EXPECT_FALSE(decode(encode(ticket(6, 3)), 3, 5));
  EXPECT_FALSE(decode(encode(ticket(std::uint64_t{1} << 62, 3)), 3, boot_clock_us()));
  EXPECT_FALSE(decode(encode(ticket(0, 3)), 3, 5));
}

TEST(ClaimLayout, AnyChangedByteMakesATicketNone) {
  const TicketRecord whole = encode(ticket(5, 3));
  for (std::size_t i = 0; i < sizeof whole; ++i) {
    TicketRecord changed = whole;
    reinterpret_cast<unsigned char*>(&changed)[i] ^= 0x40;
    EXPECT_FALSE(decode(changed, 3, ~std::uint64_t{0})) << "byte " << i;
  }
}

TEST(ClaimLayout, ANoteCountsOnlyInItsDirectoryAndForItsKeys) {
  SlotKeys keys{"GPU-z", "", "", "", "GPU-a"};
  Note note;
  note.id = "0123456789abcdef";
  note.command = std::string(1000, 'x');
  note.shared = true;
  note.memory_mib = 4096;
  note.put(4, 2, {4711, 1000, 77});
  const NoteRecord record = encode(note, keys, 7);
  auto read = decode(record, keys, 7);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id, note.id);
  EXPECT_EQ(read->command, std::string(288 - 16 - 1, 'x')) << "behind it lies what tells the node";
  SlotNodes now{};
  const auto with = [&](std::uint64_t inode, std::uint32_t born = 0, std::uint32_t generation = 0) {
    return now[4] = {inode, born, generation}, now;
  };
  EXPECT_TRUE(read->exchanged(with(4711)).empty());
  EXPECT_EQ(read->exchanged(with(4712)), std::vector<unsigned>{4});
  for (const unsigned bits : {16u, 32u, 48u, 63u})
    EXPECT_EQ(read->exchanged(with(4711 + (std::uint64_t{1} << bits))), std::vector<unsigned>{4}) << "whoever makes many files";
  EXPECT_TRUE(read->exchanged(with(0)).empty()) << "there is none";
  EXPECT_TRUE(read->exchanged(with(4711, 1000, 77)).empty());
  EXPECT_EQ(read->exchanged(with(4711, 1001, 77)), std::vector<unsigned>{4}) << "the inode was given again";
  EXPECT_EQ(read->exchanged(with(4711, 1001)), std::vector<unsigned>{4});
  EXPECT_EQ(read->exchanged(with(4711, 0, 78)), std::vector<unsigned>{4});
  EXPECT_TRUE(read->names(4, 2) && !read->names(4, 1) && !read->names(0));
  EXPECT_FALSE(decode(record, keys, 8)) << "a file that was moved from another directory says nothing";
  keys[0] = "GPU-y";
  EXPECT_TRUE(decode(record, keys, 7)) << "of slots that are not its own it knows nothing";
  keys[4] = "GPU-b";
  EXPECT_FALSE(decode(record, keys, 7)) << "a recycled slot inherits no notes";
}

// Of the first `count` slots, read and written once more, as where its end is changed.
std::optional<Note> note_of_slots(unsigned count, SlotNodes& nodes) {
  SlotKeys keys;
  Note note;
  note.id = "0123456789abcdef";
  note.command = std::string(1000, 'x');
  for (unsigned slot = 0; slot < count; ++slot) {
    keys[slot] = "GPU-" + std::to_string(slot);
    note.put(slot, 0, nodes[slot] = {65535u * slot + 1000 + slot, 1000 + slot, 7 * slot + 1});
  }
  const auto read = decode(encode(note, keys, 7), keys, 7);
  return read ? decode(encode(*read, keys, 7), keys, 7) : std::nullopt;
}

TEST(ClaimLayout, ANoteOfManySlotsTellsEachOfTheirNodes) {
  SlotNodes now{};
  const auto read = note_of_slots(most_nodes_told, now);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->command, std::string(288 - 16 * most_nodes_told - 1, 'x'));
  EXPECT_TRUE(read->exchanged(now).empty());
  now[7].inode += 65535;
  now[9] = {};
  EXPECT_EQ(read->exchanged(now), std::vector<unsigned>{7});
  ++now[8].inode;
  ++now[10].born;
  now[11].born = 0;
  ++now[12].generation;
  EXPECT_EQ(read->exchanged(now), (std::vector<unsigned>{7, 8, 10, 12}));
}

TEST(ClaimLayout, ANoteOfMoreSlotsTellsThatOneOfTheirNodesIsAnother) {
  SlotNodes now{};
  const auto read = note_of_slots(model::max_slots, now);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->command, std::string(288 - 16 - 1, 'x'));
  EXPECT_TRUE(read->exchanged(now).empty());
  const auto [inode, born, generation] = now[7];
  for (const NodeNumber& other : {NodeNumber{}, {inode + 65535, born, generation}, {inode + 1, 0, 0},
                                  {inode + (std::uint64_t{1} << 63), born, generation}, {inode, born + 1, generation},
                                  {inode, born, generation + 1}}) {
    SlotNodes then = now;
    then[7] = other;
    EXPECT_EQ(read->exchanged(then).size(), model::max_slots);
  }
  now[7].born = 0;
  EXPECT_TRUE(read->exchanged(now).empty()) << "a kernel that does not say when";
}

TEST(ClaimLayout, ANoteOfNoSlotTellsNoNode) {
  SlotKeys keys;
  Note empty;
  empty.id = "0123456789abcdef";
  empty.command = std::string(1000, 'x');
  EXPECT_EQ(decode(encode(empty, keys, 7), keys, 7)->command.size(), 287u);
}

TEST(ClaimLayout, AnyChangedByteMakesANoteNone) {
  const SlotKeys keys{"GPU-a"};
  Note note;
  note.id = "0123456789abcdef";
  note.put(0, 0, {.inode = 4711});
  const NoteRecord whole = encode(note, keys, 7);
  ASSERT_TRUE(decode(whole, keys, 7));
  for (std::size_t i = 0; i < sizeof whole; ++i) {
    NoteRecord changed = whole;
    reinterpret_cast<unsigned char*>(&changed)[i] ^= 0x40;
    EXPECT_FALSE(decode(changed, keys, 7)) << "byte " << i;
  }
}

TEST(ClaimLayout, AForeignHeaderHidesNoTicket) {
  QueueHeader garbage;
  std::memset(&garbage, 0xa5, sizeof garbage);
  EXPECT_EQ(sanitised(garbage).used, most_tickets);
  EXPECT_EQ(sanitised(QueueHeader{}).used, most_tickets);
  EXPECT_EQ(sanitised(fresh_queue_header()).used, 0u);
}

TEST(ClaimLayout, DevicesAreReadLineByLineAndNonsenseIsPassedOver) {
  SlotKeys keys = parse_devices("0 GPU-a\n7 pci-0000:3d:00.0.1\n\n0 GPU-z\n128 GPU-b\n-1 GPU-c\n"
                                "2 ../../etc\n3 GPU-a\n4  two\n5\n9 .x\n127 MIG-1");
  EXPECT_EQ(keys[0], "GPU-a");
  EXPECT_EQ(keys[7], "pci-0000:3d:00.0.1");
  EXPECT_EQ(keys[127], "MIG-1");
  unsigned named = 0;
  for (const std::string& key : keys) named += key.empty() ? 0 : 1;
  EXPECT_EQ(named, 3u);
  EXPECT_EQ(parse_devices(format_devices(keys)), keys);
}

// Research prototype, bug b: a record at the end of the file that was read short made the last waiter invisible.
TEST(ClaimLayout, AQueueCutWithinARecordLosesThatTicketAndNoOther) {
  claim_tests::TemporaryFolder folder;
  Fd fd = open_at(AT_FDCWD, (folder.path + "/queue").c_str(), O_RDWR | O_CREAT, 0600);
  QueueFile queue(fd.get());
  for (unsigned index = 0; index < 20; ++index) {
    queue.read();
    ASSERT_TRUE(queue.write(ticket(index + 1, index)));
  }
  queue.read();
  ASSERT_EQ(queue.tickets().size(), 20u);
  ASSERT_EQ(::ftruncate(fd.get(), ticket_offset(20) - 8), 0);
  queue.read();
  EXPECT_EQ(queue.tickets().size(), 19u);
  EXPECT_EQ(queue.tickets().back().view.number, 19u);
  ASSERT_EQ(::ftruncate(fd.get(), 10), 0);
  queue.read();
  EXPECT_TRUE(queue.tickets().empty());
}

TEST(ClaimLayout, TheNextNumberIsPastEveryOneThatCounts) {
  claim_tests::TemporaryFolder folder;
  Fd fd = open_at(AT_FDCWD, (folder.path + "/queue").c_str(), O_RDWR | O_CREAT, 0600);
  QueueFile queue(fd.get());
  queue.read();
  const std::uint64_t soon = boot_clock_us() + 20'000;   // as by a clock that another CPU has a little later
  ASSERT_TRUE(queue.write(ticket(soon, 3)));
  EXPECT_GT(queue.next_number(), soon);
}

TEST(ClaimLayout, RandomBytesInTheQueueAreNoTicketsAndDoNoHarm) {
  claim_tests::TemporaryFolder folder;
  Fd fd = open_at(AT_FDCWD, (folder.path + "/queue").c_str(), O_RDWR | O_CREAT, 0600);
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint64_t> words(8 * (1 + most_tickets));
    for (auto& word : words) word = random();
    ASSERT_GT(::pwrite(fd.get(), words.data(), words.size() * 8, 0), 0);
    QueueFile queue(fd.get());
    queue.read();
    EXPECT_TRUE(queue.tickets().empty());
    const std::uint64_t next = queue.next_number();
    EXPECT_LE(next, boot_clock_us());
    EXPECT_TRUE(queue.write(ticket(queue.next_number(), 500)));
    queue.read();
    EXPECT_EQ(queue.tickets().size(), 1u);
  }
}

TEST(KernelLocks, FlocksInForceAreReadWaitersAndOthersAreNot) {
  auto locks = parse_kernel_locks(
      "1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF\n"
      "1: -> FLOCK  ADVISORY  WRITE 99 fe:00:131 0 EOF\n"
      "2: POSIX  ADVISORY  READ 77 00:19:5678 0 EOF\n"
      "3: FLOCK  ADVISORY  READ  5 00:1a:18446744073709551615 0 EOF\n"
      "4: FLOCK  ADVISORY  WRITE x fe:00:1 0 EOF\nrubbish\n");
  ASSERT_EQ(locks.size(), 2u);
  EXPECT_EQ(locks[0].pid, 1234);
  EXPECT_EQ(locks[0].ino, 131u);
  EXPECT_TRUE(locks[0].exclusive);
  EXPECT_FALSE(locks[1].exclusive);
}

// What the kernel writes, reading after reading; the last one again and again.
KernelLocks read_as(std::vector<LockTable> tables, std::chrono::nanoseconds limit = for_init_to_take) {
  return join_tables([tables = std::move(tables), next = std::size_t{0}]() mutable {
    return tables[std::min(next++, tables.size() - 1)];
  }, limit);
}

LockTable pages(const std::string& pids, bool at_once = false) {
  LockTable table;
  for (char pid : pids) table.text += fmt::format("1: FLOCK  ADVISORY  WRITE {} 00:1b:{} 0 EOF\n", pid, pid);
  table.read = true;
  table.at_once = at_once;
  return table;
}

std::string pids_of(const KernelLocks& locks) {
  std::string pids;
  for (const KernelLock& lock : locks.flocks) pids += std::to_string(lock.pid);
  return pids;
}

TEST(KernelLocks, AListOfSeveralPagesIsReadUntilItReadsTwiceAlike) {
  EXPECT_EQ(pids_of(read_as({pages("124"), pages("1234"), pages("1234"), pages("9")})), "1234");
  EXPECT_EQ(pids_of(read_as({pages("12", true), pages("9")})), "12") << "which is read once";
  EXPECT_EQ(pids_of(read_as({pages("12"), pages("2", true)})), "2") << "what has ended in between is not in it";
}

TEST(KernelLocks, AListThatNeverReadsTwiceAlikeIsJoined) {
  std::vector<LockTable> restless{pages("54")};
  for (int i = 0; i < 64; ++i) restless.push_back(pages(i % 2 ? "1" : "12"));
  const KernelLocks locks = read_as(restless);
  std::string found = pids_of(locks);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, "1245");
  EXPECT_TRUE(locks.whole);
  EXPECT_EQ(locks.flocks.front().pid, 1) << "who was seen last is named first";
}

// Who makes a page look like the last one does so time after time; what one reading misses another has.
TEST(KernelLocks, WhoIsInNoneOfManyReadingsIsNobody) {
  std::vector<LockTable> misled(14, pages("12", true));
  misled.push_back(pages("123", true));
  misled.push_back(pages("12", true));
  KernelLocks locks = read_as(misled, to_name_holders);
  EXPECT_EQ(pids_of(locks), "12");
  EXPECT_TRUE(locks.names_all());
  EXPECT_EQ(pids_of(locks), "123");
  LockTable cut = pages("12", true);
  cut.whole = false;
  misled[9] = cut;
  EXPECT_FALSE(read_as(misled, to_name_holders).names_all());
}

// What stood behind a full page may have moved up onto it meanwhile; then the next one is empty.
TEST(KernelLocks, AFullPageMayNotHaveBeenTheLast) {
  const claim_tests::TemporaryFolder folder;
  std::vector<Fd> locks;
  std::size_t before = 0;
  for (; before <= 4096 && locks.size() < 200; before = lock_table(for_init_to_take).text.size()) {
    locks.push_back(create_at(AT_FDCWD, (folder.path + "/" + std::to_string(locks.size())).c_str(), O_RDWR, 0600));
    ASSERT_EQ(::flock(locks.back().get(), LOCK_EX), 0);
    const LockTable table = lock_table(for_init_to_take);
    EXPECT_FALSE(table.text.size() > 4096 - 256 && table.at_once) << table.text.size();
  }
  EXPECT_GT(before, 4096u);
}

// Else who holds a lock that was missed would be nobody.
TEST(KernelLocks, OnlyAListThatNamesAllSaysThatNobodyHasALock) {
  const claim_tests::TemporaryFolder folder;
  const Fd file = create_at(AT_FDCWD, (folder.path + "/file").c_str(), O_RDWR, 0600);
  KernelLocks locks;
  EXPECT_EQ(told_lockers_of(locks, file.get()), std::vector<pid_t>());
  locks.whole = false;
  EXPECT_FALSE(told_lockers_of(locks, file.get()));
  struct stat about {};
  ASSERT_EQ(::fstat(file.get(), &about), 0);
  locks.flocks = {{about.st_dev, about.st_ino, 7, true}};
  EXPECT_EQ(told_lockers_of(locks, file.get()), std::vector<pid_t>{7});
}

// A unit whose node was deleted, and whose holder nobody sees, is given to another only where there really is none.
TEST(KernelLocks, ADeletedNodeThatAListMayHaveMissedIsSomebodys) {
  const std::vector<RecordedNode> nodes{{"gpu.GPU-0", 0, ~std::uint64_t{0}, ~std::uint64_t{0}}};
  KernelLocks listed;
  EXPECT_TRUE(node_locks(nodes, ::geteuid(), listed).empty());
  listed.whole = false;
  EXPECT_EQ(node_locks(nodes, ::geteuid(), listed).size(), 1u);
}

TEST(KernelLocks, AListThatCannotBeReadProvesNothing) {
  EXPECT_FALSE(read_as({LockTable{}}).names_all());
  LockTable cut = pages("1");
  cut.whole = false;
  EXPECT_FALSE(read_as({cut}).names_all());
  EXPECT_FALSE(read_as({cut}).crowd.empty());
}

TEST(KernelLocks, AFileOfAnotherFileSystemWithTheSameNumberIsAnotherFile) {
  claim_tests::TemporaryFolder folder;
  Fd fd = open_at(AT_FDCWD, (folder.path + "/file").c_str(), O_RDWR | O_CREAT, 0600);
  struct stat file;
  ASSERT_EQ(::fstat(fd.get(), &file), 0);
  std::vector<KernelLock> locks{{file.st_dev, file.st_ino, 11, true}, {file.st_dev + 1, file.st_ino, 22, true},
                                {file.st_dev, file.st_ino + 1, 33, true}};
  EXPECT_EQ(lockers_of(locks, fd.get()), (std::vector<pid_t>{11}));
}

TEST(KernelLocks, ATakerIsNamedWithHisStartTimeAndADeadOneIsNobody) {
  const ProcessIdentity me = own_identity();
  const Taker taker = taker_among({::getpid()});
  EXPECT_EQ(taker.uid, me.uid);
  EXPECT_EQ(taker.start, me.start);
  EXPECT_FALSE(taker_among({}).uid);
  pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  EXPECT_FALSE(taker_among({dead}).uid);
}

}  // namespace
}  // namespace thole::host
