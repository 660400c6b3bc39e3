// Items of `map`: lists, lines as they arrive, texts that end with a zero byte.
#include "app/map/items.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app::map_tests {
namespace {

using Next = ItemSource::Next;

Fd file_of(std::string_view text) {
  Fd file(::memfd_create("items", MFD_CLOEXEC));
  EXPECT_TRUE(write_all(file.get(), text));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::vector<std::string> all(ItemSource& source) {
  std::vector<std::string> items, cells;
  while (source.next(cells) == Next::item) items.push_back(join(cells, "+"));
  return items;
}

std::vector<std::string> lines_of(std::string_view text, char ends_by = '\n') {
  ItemLines lines(file_of(text), "items", ends_by);
  return all(lines);
}

using Items = std::vector<std::string>;

TEST(MapItems, EveryCombinationOfLists) {
  using Lists = std::vector<std::vector<std::string>>;
  ListedItems one(Lists{{"a", "b"}}), two(Lists{{"a", "b"}, {"1", "2"}}), none(Lists{{"a"}, {}});
  EXPECT_EQ(all(one), (Items{"a", "b"}));
  EXPECT_EQ(all(two), (Items{"a+1", "a+2", "b+1", "b+2"}));
  EXPECT_EQ(all(none), Items{});
}

TEST(MapItems, LinesAreItems) {
  struct Case { std::string_view text; Items items; };
  for (const Case& c : std::vector<Case>{{"a\nb\n", {"a", "b"}}, {"a\nb", {"a", "b"}}, {"", {}}, {"\n\n", {}}, {"\n", {}},
                                         {"a\r\n\r\nb c\n", {"a", "b c"}}, {" a \n", {" a "}}})
    EXPECT_EQ(lines_of(c.text), c.items) << c.text;
}

TEST(MapItems, TextsThatEndWithAZeroByte) {
  using namespace std::string_view_literals;
  EXPECT_EQ(lines_of("a\nb\0\0c"sv, '\0'), (Items{"a\nb", "", "c"}));
}

TEST(MapItems, AZeroByteInALineIsRefused) {
  using namespace std::string_view_literals;
  EXPECT_THROW(lines_of("a\0b\n"sv), Error);
}

TEST(MapItems, ManyLinesComeWholeAcrossReads) {
  std::string text;
  Items expected;
  for (int i = 0; i < 50'000; ++i) {
    expected.push_back(fmt::format("item-{}-{}", i, std::string(static_cast<std::size_t>(i % 37), 'x')));
    text += expected.back() + "\n";
  }
  EXPECT_EQ(lines_of(text), expected);
  text = std::string(300'000, 'y');
  EXPECT_EQ(lines_of(text + "\nz\n"), (Items{text, "z"}));
}

TEST(MapItems, ALineIsThereBeforeTheNextIsWritten) {
  Pipe pipe = make_pipe();
  ItemLines lines(std::move(pipe.read), "stdin", '\n');
  std::vector<std::string> cells;
  EXPECT_EQ(lines.next(cells), Next::later);
  EXPECT_GE(lines.fd(), 0);
  ASSERT_TRUE(write_all(pipe.write.get(), "one\ntw"));
  EXPECT_EQ(lines.next(cells), Next::item);
  EXPECT_EQ(cells, Items{"one"});
  EXPECT_EQ(lines.next(cells), Next::later);
  ASSERT_TRUE(write_all(pipe.write.get(), "o"));
  pipe.write.reset();
  EXPECT_EQ(lines.next(cells), Next::item);
  EXPECT_EQ(cells, Items{"two"});
  EXPECT_EQ(lines.next(cells), Next::end);
}

TEST(MapItems, RowsOfCsv) {
  std::vector<std::string> columns;
  const auto rows = csv_items(file_of("lr,name\n1e-3,\"a, b\"\n1e-4,c\n"), "runs.csv", columns);
  EXPECT_EQ(columns, (Items{"lr", "name"}));
  EXPECT_EQ(all(*rows), (Items{"1e-3+a, b", "1e-4+c"}));
}

}  // namespace
}  // namespace thole::app::map_tests
