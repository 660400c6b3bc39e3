#include "model/cpu_set.hpp"

#include <gtest/gtest.h>

namespace thole::model {
namespace {

CpuSet set(std::string_view list) { return CpuSet::parse(list).value(); }

TEST(CpuSet, PrintsAsTasksetDoes) {
  struct { const char* in; const char* out;
  } const cases[] = {
      {"", ""},       {"0", "0"},           {"0-3,16-19", "0-3,16-19"}, {"3,1,2", "1-3"},
      {"1,0", "0,1"}, {"0-7:2", "0,2,4,6"}, {"63-65", "63-65"},         {" 0 - 3 , 5 ", "0-3,5"},
  };
  for (auto [in, out] : cases) EXPECT_EQ(set(in).to_string(), out) << in;
}

TEST(CpuSet, RefusesWhatIsNoList) {
  for (auto bad :
       {",", "1,", "-", "1-", "-1", "3-1", "a", "0-3:0", "5:2", "1--3", "65536", "0-99999999999", "0-3:99999999999999999999"})
    EXPECT_FALSE(CpuSet::parse(bad)) << '"' << bad << '"';
  EXPECT_EQ(CpuSet::parse("0-3:18446744073709551615")->to_string(), "0");  // a step that would wrap ends the range
}

TEST(CpuSet, DoesSetAlgebraAcrossWords) {
  CpuSet a = set("0-3,100-103"), b = set("2-5,103-200");
  EXPECT_EQ((a & b).to_string(), "2,3,103");
  EXPECT_EQ((a | b).to_string(), "0-5,100-200");
  EXPECT_EQ((a - b).to_string(), "0,1,100-102");
  EXPECT_EQ(a.size(), 8u);
  EXPECT_TRUE(a.contains(100));
  EXPECT_FALSE(a.contains(99));
  EXPECT_FALSE(a.contains(100000));
}

TEST(CpuSet, IsEqualHoweverItWasMade) {
  CpuSet a = set("0,200");
  a.remove(200);
  EXPECT_EQ(a, set("0"));
  EXPECT_EQ(set("0,200") & set("0-64"), set("0"));
  EXPECT_EQ(set("0,200") - set("200"), set("0"));
  a.remove(0);
  a.remove(77);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(a, CpuSet());
}

}  // namespace
}  // namespace thole::model
