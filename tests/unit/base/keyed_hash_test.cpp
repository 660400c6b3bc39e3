#include "base/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <string>

using namespace thole;

// From the reference implementation (vectors.h): key 00 01 … 0f, text 00 01 … of this length.
TEST(KeyedHash, IsSipHashAsPublished) {
  const HashKey key{0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  std::string text;
  EXPECT_EQ(keyed_hash(key, text), 0x726fdb47dd0e0e31u);
  for (char c = 0; c < 15; ++c) text += c;
  EXPECT_EQ(keyed_hash(key, text.substr(0, 7)), 0xab0200f58b01d137u);
  EXPECT_EQ(keyed_hash(key, text.substr(0, 8)), 0x93f5f5799a932462u);
  EXPECT_EQ(keyed_hash(key, text), 0xa129ca6149be45e5u);
}
