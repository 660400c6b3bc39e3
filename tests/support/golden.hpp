// What the program says now, beside what was recorded of it, for people to read. THOLE_UPDATE_GOLDEN=1 records anew; look at
// the difference before committing it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/fd.hpp"
#include "test_folders.hpp"

namespace thole::test {

// `file`: below tests/golden.
inline void expect_as_recorded(const std::string& file, const std::string& now) {
  const std::string path = THOLE_SOURCE_DIR "/tests/golden/" + file;
  if (std::getenv("THOLE_UPDATE_GOLDEN") != nullptr) write_file(path, now);
  const auto recorded = read_file(path);
  ASSERT_TRUE(recorded) << path << " is missing; THOLE_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(now, *recorded) << path;
}

}  // namespace thole::test
