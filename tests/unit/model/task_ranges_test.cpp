#include "model/task_ranges.hpp"

#include <gmock/gmock.h>

namespace thole::model {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TaskRanges, AreInOrderAndNoneIsNextToAnother) {
  EXPECT_THAT(ranges_of({}), IsEmpty());
  EXPECT_THAT(ranges_of({7}), ElementsAre(TaskRange{7, 7}));
  EXPECT_THAT(ranges_of({9, 3, 4, 0, 5, 4, 11}),
              ElementsAre(TaskRange{0, 0}, TaskRange{3, 5}, TaskRange{9, 9}, TaskRange{11, 11}));
}

TEST(TaskRanges, AreNamedAsCommandsUnderstandThem) {
  EXPECT_EQ(name_of(12, {3, 3}), "12.3");
  EXPECT_EQ(name_of(12, {0, 4}), "12.0-4");
}

}  // namespace thole::model
