#include "model/boot.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "base/machine_clocks.hpp"

namespace thole::model {
namespace {

const BootId this_boot{"here"}, former_boot{"before"}, container{"inside", false}, other_container{"another", false};

std::unique_ptr<LaneRecord> said_under(const BootId& boot, Millis start_since_boot = Millis{0}) {
  auto made = std::make_unique<LaneRecord>();
  LaneRecord& record = *made;
  record.magic = lane_magic;
  put_boot(record, boot);
  record.commands[5].start_ticks =
      static_cast<std::uint64_t>(start_since_boot.count() * ::sysconf(_SC_CLK_TCK) / 1000);
  record.command_seals[5] = command_seal(record, 5);
  return made;
}
Millis later_than_now() { return known_since_boot().value() + Seconds{3600}; }

TEST(Boots, TheKernelsIdsAreOfOneBootOrOfTwo) {
  EXPECT_EQ(Boots(this_boot).of(this_boot), Boot::this_one);
  EXPECT_EQ(Boots(this_boot).of(former_boot), Boot::another);
}

TEST(Boots, AContainersIdTellsNothingButItself) {
  EXPECT_EQ(Boots(container).of(this_boot), Boot::untold);
  EXPECT_EQ(Boots(this_boot).of(container), Boot::untold);
  EXPECT_EQ(Boots(container).of(other_container), Boot::untold);
  EXPECT_EQ(Boots(container).of(container), Boot::this_one);
}

TEST(Boots, WhatIsSaidByWhoeverLivesIsOfThisOne) {
  Boots boots(container);
  boots.learn(*said_under(this_boot), true);
  EXPECT_EQ(boots.of(this_boot), Boot::this_one) << "all that was said under this id";
  EXPECT_EQ(boots.of(former_boot), Boot::untold);
}

TEST(Boots, WhatStartedLaterThanItIsNowWasUnderAnotherOne) {
  if (!known_since_boot()) GTEST_SKIP() << "/proc does not tell the machine's clock";
  Boots boots(container);
  boots.learn(*said_under(this_boot, *known_since_boot()), false);
  EXPECT_EQ(boots.of(this_boot), Boot::untold);
  boots.learn(*said_under(former_boot, later_than_now()), false);
  EXPECT_EQ(boots.of(former_boot), Boot::another);
  boots.learn(*said_under(container, later_than_now()), false);
  EXPECT_EQ(boots.of(container), Boot::another) << "a container that has the same one after a boot, too";
}

TEST(Boots, AStartOfNobodyKnowsWhoseRunProvesNothing) {
  if (!known_since_boot()) GTEST_SKIP() << "/proc does not tell the machine's clock";
  const auto made = said_under(former_boot, later_than_now());
  LaneRecord& record = *made;
  record.bays[5].pid = 7;
  Boots boots(container);
  boots.learn(record, false);
  EXPECT_EQ(boots.of(former_boot), Boot::untold);
}

TEST(Boots, WhoseIdItIsStandsInRecordAndFile) {
  for (const BootId& boot : {this_boot, container, BootId{"01234567-89ab-cdef-0123-456789abcdef", false}}) {
    EXPECT_EQ(boot_of(*said_under(boot)), boot);
    EXPECT_EQ(boot_from_text(to_text(boot)), boot);
  }
  const auto older = said_under(this_boot);
  older->boot.back() = '\0';                      // an earlier build writes the id alone
  EXPECT_EQ(boot_of(*older), this_boot);
}

TEST(Boots, ACommandIsKnownByItsStartWhereTheBootIsNotTold) {
  const auto made = said_under(this_boot, Seconds{5});
  LaneRecord& record = *made;
  record.bays[5].pid = 77;
  record.commands[5].number = 99;
  record.command_seals[5] = command_seal(record, 5);
  EXPECT_EQ(noted_command(record, 5, Boot::this_one).identity.number, 99u);
  EXPECT_EQ(noted_command(record, 5, Boot::untold).pid, 77);
  EXPECT_EQ(noted_command(record, 5, Boot::untold).identity.number, 0u) << "after a boot that is somebody else's";
  EXPECT_EQ(noted_command(record, 5, Boot::another).pid, 0);
  record.commands[5].start_ticks = 0;
  record.command_seals[5] = command_seal(record, 5);
  EXPECT_EQ(noted_command(record, 5, Boot::untold).pid, 0);
}

}  // namespace
}  // namespace thole::model
