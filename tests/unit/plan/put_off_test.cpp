#include "plan/turn/put_off.hpp"

#include <gtest/gtest.h>

namespace thole::plan {
namespace {

constexpr WallTime noon{Millis{1'700'000'000'000}};
constexpr std::uint32_t anna = 1, ben = 2, carla = 3;

// Two GPUs: Ben's claim on the first ends in 5 minutes, Anna's on the second in 10; Carla waits for both.
struct PutOffTest : testing::Test {
  PutOffTest() {
    queue.slots = {{"a", {{ben, false, false, std::nullopt, noon + Seconds{300}}}},
                   {"b", {{anna, false, false, std::nullopt, noon + Seconds{600}}}}};
    queue.tickets.push_back(ticket(7, carla, 2));
  }
  static model::TicketView ticket(std::uint64_t number, std::uint32_t uid, unsigned count) {
    model::TicketView ticket;
    ticket.number = number;
    ticket.uid = uid;
    ticket.count = count;
    ticket.eligible = both();
    return ticket;
  }
  static model::SlotSet both() { return model::SlotSet(0b11); }
  static model::SlotSet first() { return model::SlotSet(0b01); }
  std::optional<PutOff> by(Seconds later, const std::vector<model::InLine>& passed) const {
    return put_off(queue, first(), ben, noon + later, passed, noon);
  }

  model::QueueView queue;
};

TEST_F(PutOffTest, ALaterEndThatMovesNobodysPromisePutsNobodyOff) { EXPECT_EQ(by(Seconds{600}, {{7, carla}}), std::nullopt); }

TEST_F(PutOffTest, WhoLetTheClaimGoFirstIsPutOffByAnEndAfterHisPromise) {
  EXPECT_EQ(by(Seconds{3600}, {{7, carla}}), (PutOff{carla, noon + Seconds{600}}));
}

TEST_F(PutOffTest, WhoCameAfterTheClaimIsNotAsked) {
  EXPECT_EQ(by(Seconds{3600}, {}), std::nullopt);
  EXPECT_EQ(by(Seconds{3600}, {{7, anna}}), std::nullopt) << "anybody can write a ticket with another's number";
}

TEST_F(PutOffTest, WhoHasNoPromiseLosesNone) {
  queue.slots[1].holders[0].until.reset();
  EXPECT_EQ(by(Seconds{3600}, {{7, carla}}), std::nullopt);
}

TEST_F(PutOffTest, WhoHasGoneIsNotAsked) {
  queue.tickets.clear();
  EXPECT_EQ(by(Seconds{3600}, {{7, carla}}), std::nullopt);
}

TEST_F(PutOffTest, OnlyThisUsersClaimEndsThen) {
  EXPECT_EQ(put_off(queue, both(), ben, noon + Seconds{500}, std::vector<model::InLine>{{7, carla}}, noon), std::nullopt);
}

TEST_F(PutOffTest, ThoseBeforeMeWantSomeOfWhatITakeAndAreNotPassedForGood) {
  queue.tickets.push_back(ticket(8, anna, 1));
  queue.tickets.push_back(ticket(9, ben, 1));
  queue.tickets[1].stopped = true;
  EXPECT_EQ(passed_by(queue, 9, first()), (std::vector<model::InLine>{{7, carla}}));
  EXPECT_EQ(passed_by(queue, std::nullopt, first()), (std::vector<model::InLine>{{7, carla}, {9, ben}}));
  EXPECT_EQ(passed_by(queue, 7, first()), (std::vector<model::InLine>{}));
  queue.tickets[0].eligible = model::SlotSet(0b10);
  EXPECT_EQ(passed_by(queue, 9, first()), (std::vector<model::InLine>{}));
}

}  // namespace
}  // namespace thole::plan
