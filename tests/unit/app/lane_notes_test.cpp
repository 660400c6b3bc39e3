// What a lane notes, in a file that takes nothing for a while.
#include "app/queue/lane_notes.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

namespace thole::app {
namespace {

// No file may become larger than nothing while it lives.
struct NothingIsWritten {
  NothingIsWritten() {
    handler = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NothingIsWritten() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
  }
  rlimit before{};
  void (*handler)(int) = SIG_DFL;
};

class LaneNotesTest : public testing::Test {
 protected:
  LaneNotesTest() {
    EXPECT_EQ(::ftruncate(file, sizeof(model::LaneRecord)), 0);
    void* memory = ::mmap(nullptr, sizeof(model::LaneRecord), PROT_READ, MAP_SHARED, file, 0);
    EXPECT_NE(memory, MAP_FAILED);
    record = port::SeenRecord(port::SeenRecord::Memory(static_cast<const model::LaneRecord*>(memory), unmap), Fd(file));
    task.job = 7, task.index = 3, task.runs = 2, task.bay = bay;
  }
  static void unmap(const model::LaneRecord* seen) { ::munmap(const_cast<model::LaneRecord*>(seen), sizeof *seen); }
  const model::LaneBay& seen() const { return record->bays[bay]; }

  static constexpr unsigned bay = 50;            // it lies in two pages
  const int file = ::memfd_create("record", MFD_CLOEXEC);
  port::SeenRecord record;
  port::TakenTask task{};
  std::vector<std::string> said;
};

TEST_F(LaneNotesTest, WhetherOthersGoPastItIsNewOnceAndIsThatOfThisLaneAlone) {
  EXPECT_TRUE(record.write(record->pid, 4711));
  LaneNotes notes(record);
  EXPECT_FALSE(notes.passed_over(false));
  {
    const NothingIsWritten full;
    EXPECT_FALSE(notes.passed_over(true));
  }
  EXPECT_TRUE(notes.passed_over(true)) << "what had no room is written with the next look";
  EXPECT_FALSE(notes.passed_over(true));
  EXPECT_TRUE(model::is_passed_over(*record));
  EXPECT_TRUE(record.write(record->pid, 4712));
  EXPECT_FALSE(model::is_passed_over(*record)) << "a lane of an earlier build, which leaves it there";
  EXPECT_TRUE(record.write(record->pid, 4711));
  EXPECT_TRUE(notes.passed_over(false));
  EXPECT_FALSE(model::is_passed_over(*record));
  EXPECT_TRUE(notes.passed_over(true));
  EXPECT_TRUE(notes.claimed());
  EXPECT_FALSE(model::is_passed_over(*record)) << "it has its claim";
}

TEST_F(LaneNotesTest, WhatIsNotedIsSeen) {
  LaneNotes notes(record);
  EXPECT_TRUE(notes.claimed());
  EXPECT_FALSE(notes.claimed());
  notes.job(7);
  EXPECT_EQ(record->claimed.load(), 1u);
  EXPECT_EQ(record->job.load(), 7u);
  ASSERT_TRUE(notes.taken(task, WallTime{Millis{5}}));
  EXPECT_EQ(seen().phase.load(), model::TaskPhase::taken);
  EXPECT_EQ(seen().job, 7u);
  const auto reached = notes.reached(bay);
  EXPECT_EQ(reached.file, file);
  EXPECT_EQ(record.offset_of(&seen().phase), reached.offset);
  ASSERT_EQ(::pwrite(reached.file, &reached.text, sizeof reached.text, static_cast<off_t>(reached.offset)), 4);
  EXPECT_EQ(seen().phase.load(), model::TaskPhase::reached);
  notes.began(bay, 99, {1, 2});
  EXPECT_EQ(seen().pid, 99);
  EXPECT_EQ(model::command_of(*record, bay).number, 2u);
  notes.limit_clock(bay, -4);
  EXPECT_EQ(seen().limit_clock, -4);
  notes.ended(bay, {.exit_code = 3, .signal = -1, .flags = model::how_core}, WallTime{Millis{9}});
  EXPECT_EQ(seen().phase.load(), model::TaskPhase::ended);
  EXPECT_EQ(seen().seal, model::end_seal(seen()));
  EXPECT_FALSE(notes.behind());
}

TEST_F(LaneNotesTest, WhatThereIsNoRoomForIsWrittenLater) {
  LaneNotes notes(record);
  ASSERT_TRUE(notes.taken(task, WallTime{Millis{5}}));
  const auto say = [this](const std::string& text) { said.push_back(text); };
  {
    const NothingIsWritten full;
    notes.began(bay, 99, {1, 2});
    notes.ended(bay, {.exit_code = 3, .signal = -1}, WallTime{Millis{9}});
    notes.write_again(say);
    notes.write_again(say);
    EXPECT_TRUE(notes.behind());
    EXPECT_EQ(notes.refusal(), EFBIG);
    EXPECT_EQ(said.size(), 1u);
    EXPECT_EQ(seen().phase.load(), model::TaskPhase::taken);
    port::TakenTask next = task;
    next.bay = 0;
    EXPECT_FALSE(notes.taken(next, WallTime{}));
  }
  notes.write_again(say);
  EXPECT_FALSE(notes.behind());
  EXPECT_EQ(seen().phase.load(), model::TaskPhase::ended);
  EXPECT_EQ(seen().exit_code, 3);
  EXPECT_EQ(seen().pid, 99);
  EXPECT_EQ(model::command_of(*record, bay).number, 2u);
}

}  // namespace
}  // namespace thole::app
