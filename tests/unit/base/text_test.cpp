#include "base/text.hpp"

#include <gtest/gtest.h>

namespace thole {
namespace {

using Strings = std::vector<std::string>;

using namespace std::string_view_literals;

TEST(Text, TrimsBlanksOnBothSides) {
  EXPECT_EQ(trim("  a b\t\n"), "a b");
  EXPECT_EQ(trim(" \n\t "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, SplitsAndKeepsEmptyPieces) {
  EXPECT_EQ(split("a,,b,"sv, ','), (std::vector<std::string_view>{"a", "", "b", ""}));
  EXPECT_EQ(split(""sv, ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split_lines("a\n\nb\n"sv), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_TRUE(split_lines(""sv).empty());
}

TEST(Text, JoinsWithASeparatorBetween) {
  EXPECT_EQ(join(Strings{"a", "b"}, ", "), "a, b");
  EXPECT_EQ(join(Strings{}, ", "), "");
}

TEST(Text, ComparesIgnoringCase) {
  EXPECT_TRUE(starts_with_ignoring_case("GPU-5c2f", "gpu-5C"));
  EXPECT_FALSE(starts_with_ignoring_case("GPU", "GPU-"));
  EXPECT_TRUE(contains_ignoring_case("NVIDIA A100-SXM4-40GB", "a100"));
  EXPECT_TRUE(contains_ignoring_case("x", ""));
  EXPECT_FALSE(contains_ignoring_case("NVIDIA H100", "a100"));
}

TEST(Text, TakesWholeNumbersStrictly) {
  EXPECT_EQ(parse_u64("0"), 0u);
  EXPECT_EQ(parse_u64("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(parse_u64("ff", 16), 255u);
  for (auto bad : {"", "-1", "+1", " 1", "1 ", "1.0", "0x10", "18446744073709551616", "one"})
    EXPECT_FALSE(parse_u64(bad)) << '"' << bad << '"';
}

TEST(Text, TakesFractionsButNeitherInfinityNorSigns) {
  EXPECT_EQ(parse_double("1.5"), 1.5);
  EXPECT_EQ(parse_double(".5"), 0.5);
  for (auto bad : {"", "-1", "+1", "inf", "nan", "1e999", "1.5x", " 1"}) EXPECT_FALSE(parse_double(bad)) << '"' << bad << '"';
}

TEST(Text, TakesSizesAsMebibytesRoundedUp) {
  struct { const char* text; std::uint64_t mib;
  } const cases[] = {
      {"8192", 8192}, {"8G", 8192},    {"8g", 8192},   {"8GB", 8192}, {"8GiB", 8192},
      {"8Gi", 8192},  {"8 GiB", 8192}, {"1.5g", 1536}, {"512M", 512}, {"512MiB", 512},
      {"1K", 1},      {"1025k", 2},    {"0.1M", 1},    {"0", 0},      {"2T", 2097152},
  };
  for (auto [text, mib] : cases) EXPECT_EQ(parse_size_mib(text), mib) << text;
  for (auto bad : {"", "G", "8X", "8GG", "8GiBs", "8Gii", "8i", "-8G", "8.5.1G", "1e3", "99999999999T", "8G 4M", "0x8G"})
    EXPECT_FALSE(parse_size_mib(bad)) << '"' << bad << '"';
}

TEST(Text, PrintsMebibytesForPeople) {
  EXPECT_EQ(format_mib(0), "0 MiB");
  EXPECT_EQ(format_mib(1023), "1023 MiB");
  EXPECT_EQ(format_mib(8192), "8.0 GiB");
  EXPECT_EQ(format_mib(40960), "40.0 GiB");
  EXPECT_EQ(format_mib(2000ull * 1024 * 1024), "2000.0 TiB");
}

TEST(Text, TakesPercentagesAndGputilFractions) {
  EXPECT_EQ(parse_percent("50%"), 50);
  EXPECT_EQ(parse_percent("50"), 50);
  EXPECT_EQ(parse_percent("0.5"), 50);
  EXPECT_EQ(parse_percent("1.0"), 100);
  EXPECT_EQ(parse_percent("1"), 1);
  EXPECT_EQ(parse_percent("0.5%"), 0.5);
  for (auto bad : {"", "%", "101", "120%", "-1", "half"}) EXPECT_FALSE(parse_percent(bad)) << '"' << bad << '"';
}

TEST(Text, NamesTheNearestOnlyForALikelySlip) {
  Strings verbs{"status", "run", "claim", "release", "doctor"};
  EXPECT_EQ(nearest("statsu", verbs), "status");   // two neighbours swapped: one step
  EXPECT_EQ(nearest("relaese", verbs), "release");
  EXPECT_EQ(nearest("rnu", verbs), "run");
  EXPECT_EQ(nearest("STATUS", verbs), "status");
  EXPECT_FALSE(nearest("xyz", verbs));
  EXPECT_FALSE(nearest("a", verbs));
  EXPECT_FALSE(nearest("", verbs));
  EXPECT_FALSE(nearest(std::string(1'000'000, 'a'), Strings{std::string(1'000'000, 'a')}));
}

TEST(Printable, ShowsWhatIsBlankSoThatNoNameLooksEmpty) {
  struct { std::string_view text; const char* shown; } const cases[] = {
      {"\u3164", "\\u3164"}, {"\u115f\u1160", "\\u115f\\u1160"}, {"\uffa0", "\\uffa0"},   // Hangul fillers
      {"\u2800", "\\u2800"},                                  // the empty Braille cell
      {"\u00a0", "\\u00a0"}, {"\u2003", "\\u2003"}, {"\u202f", "\\u202f"}, {"\u3000", "\\u3000"},   // spaces
      {"\u17b4", "\\u17b4"}, {"\U0001d173", "\\u1d173"}, {"\U000e0080", "\\ue0080"},
      {"\ufe0f", "\\ufe0f"}, {"\u2764\ufe0f", "\u2764\ufe0f"},   // a selector alone, and behind its sign
      {"\u034f", "\\u034f"},
      {" ", " "},
  };
  for (auto [text, shown] : cases) EXPECT_EQ(printable(text), shown);
}

TEST(Printable, LeavesNoByteThatSteersATerminal) {
  struct { std::string_view text; const char* shown; } const cases[] = {
      {"plain é 日本", "plain é 日本"},
      {"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},
      {"a\nb\tc\r", "a\\x0ab\\x09c\\x0d"},
      {std::string_view("nul\0", 4), "nul\\x00"},
      {"del\x7f", "del\\x7f"},
      {"c1 \xc2\x9b" "31m", "c1 \\x9b31m"},               // U+009B is CSI in eight bits
      {"\x9b" "31m", "\\x9b31m"},                          // as a bare byte
      {"\xe2\x80\xae" "exe", "\\u202eexe"},                // right-to-left override
      {"\xe2\x80\x8b", "\\u200b"},                         // zero width space
      {"\xe2\x80\xa8", "\\u2028"},                         // line separator
      {"\xff\xfe", "\\xff\\xfe"},
      {"\xc0\xaf", "\\xc0\\xaf"},                          // overlong '/'
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                 // a surrogate
      {"\xe6\x97", "\\xe6\\x97"},                          // cut short
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},        // beyond Unicode
  };
  for (auto [text, shown] : cases) EXPECT_EQ(printable(text), shown);
}

TEST(Printable, CutsByColumnsWithAnEllipsis) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcde…");
  EXPECT_EQ(printable("日本語", 6), "日本語");
  EXPECT_EQ(printable("日本語", 5), "日本…");
  EXPECT_EQ(printable("日本語", 4), "日…");     // a wide character is never cut in two
  EXPECT_EQ(printable("ab\x1b", 5), "ab…");     // nor an escape
  EXPECT_EQ(printable("abc", 1), "…");
  EXPECT_EQ(printable("abc", 0), "");
}

TEST(Printable, IsItselfPrintable) {
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  std::string once = printable(every, 4096);
  EXPECT_EQ(printable(once, 4096), once);
}

TEST(ShellQuote, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_quote("train.py"), "train.py");
  EXPECT_EQ(shell_quote("--lr=1e-3"), "--lr=1e-3");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_quote("~"), "'~'");
}

}  // namespace
}  // namespace thole
