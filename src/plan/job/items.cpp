#include "plan/job/items.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/job/sweep.hpp"

namespace thole::plan {

namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // spreadsheets begin with a byte order mark
    const std::string_view head = text_.substr(0, text_.find('\n'));
    if (head.find('\t') != std::string_view::npos && head.find(',') == std::string_view::npos) separator_ = '\t';
  }

  ReadItems read() {
    ReadItems result;
    std::vector<std::string> row;
    while (skip_empty_lines()) {
      const std::size_t line = line_;
      row.clear();
      read_row(row);
      if (std::ranges::any_of(row, [](const std::string& cell) { return cell.find('\0') != std::string::npos; }))
        fail(line, "a cell holds a zero byte, so it can be no argument");
      if (result.columns.empty()) {
        check_names(row, line);
        result.columns = row;
        result.items = model::Items(row.size());
        continue;
      }
      if (row.size() != result.columns.size())
        fail(line, fmt::format("{} cells, but the first row names {} columns", row.size(), result.columns.size()));
      result.items.add(std::vector<std::string_view>(row.begin(), row.end()));
    }
    if (result.items.empty()) throw Error(ErrorCode::usage, "no rows, so there is nothing to run").about(name_);
    return result;
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& why, const char* hint = "") const {
    throw Error(ErrorCode::usage, fmt::format("{}:{}: {}", printable(name_), line, why)).hint(hint);
  }

  bool skip_empty_lines() {
    for (; !text_.empty() && (text_.front() == '\n' || text_.starts_with("\r\n")); ++line_)
      text_.remove_prefix(text_.front() == '\n' ? 1 : 2);
    return !text_.empty();
  }

  void read_row(std::vector<std::string>& cells) {
    for (;;) {
      cells.push_back(text_.starts_with('"') ? quoted_cell() : plain_cell());
      if (text_.starts_with("\r\n")) text_.remove_prefix(1);
      if (text_.empty()) return;
      const char end = text_.front();
      text_.remove_prefix(1);
      if (end == separator_) continue;
      ++line_;
      return;
    }
  }

  std::string plain_cell() {
    std::string_view cell = text_.substr(0, std::min(text_.find(separator_), text_.find('\n')));
    text_.remove_prefix(cell.size());
    if (cell.ends_with('\r') && (text_.empty() || text_.front() == '\n')) cell.remove_suffix(1);
    return std::string(trim(cell));
  }

  std::string quoted_cell() {
    const std::size_t line = line_;
    std::string cell;
    text_.remove_prefix(1);
    for (;;) {
      const std::size_t quote = text_.find('"');
      if (quote == std::string_view::npos) fail(line, "a quote is not closed");
      cell += text_.substr(0, quote);
      text_.remove_prefix(quote + 1);
      if (!text_.starts_with('"')) break;
      cell += '"';
      text_.remove_prefix(1);
    }
    line_ += static_cast<std::size_t>(std::count(cell.begin(), cell.end(), '\n'));
    if (!text_.empty() && text_.front() != separator_ && text_.front() != '\n' && !text_.starts_with("\r\n"))
      fail(line, "text after a closing quote");
    return cell;
  }

  void check_names(const std::vector<std::string>& names, std::size_t line) const {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      if (!is_variable_name(name))
        fail(line, fmt::format("the first row names the variables, and \"{}\" is no name", printable(name, 40)),
             "a name is a letter or _, then letters, digits and _.-");
      if (is_reserved_name(name))
        fail(line, fmt::format("{{{}}} has a meaning already", name), "name the column otherwise");
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), name) !=
          names.begin() + static_cast<std::ptrdiff_t>(i))
        fail(line, fmt::format("two columns named {}", name));
    }
  }

  std::string_view text_;
  const std::string& name_;
  char separator_ = ',';
  std::size_t line_ = 1;
};

}  // namespace

ReadItems parse_csv(std::string_view text, const std::string& name) { return CsvReader(text, name).read(); }

ReadItems parse_lines(std::string_view text, const std::string& name) {
  ReadItems result{{"line"}, model::Items(1)};
  for (std::string_view line : split_lines(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.find('\0') != std::string_view::npos)
      throw Error(ErrorCode::usage, "a line holds a zero byte, so it can be no argument").about(name);
    result.items.add({&line, 1});
  }
  if (result.items.empty()) throw Error(ErrorCode::usage, "no lines, so there is nothing to run").about(name);
  return result;
}

}  // namespace thole::plan
