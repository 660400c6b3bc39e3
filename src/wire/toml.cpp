#include "wire/toml.hpp"

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::wire {

namespace {

std::string scalar_text(const toml::node& node, const std::string& path) {
  if (auto text = node.value_exact<std::string>()) return *text;
  if (auto whole = node.value_exact<std::int64_t>()) return fmt::format("{}", *whole);
  if (auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  throw Error(ErrorCode::usage, fmt::format("{}:{}: expected a text, a number, true or false", path, node.source().begin.line));
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& path, std::vector<TomlEntry>& entries) {
  for (auto&& [key, node] : table) {
    TomlEntry entry;
    entry.key = prefix + std::string(key.str());
    entry.line = node.source().begin.line;
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, entry.key + ".", path, entries);
      continue;
    }
    if (const toml::array* array = node.as_array()) {
      entry.array = true;
      for (const toml::node& element : *array) entry.values.push_back(scalar_text(element, path));
    } else {
      entry.values.push_back(scalar_text(node, path));
    }
    for (const std::string& value : entry.values)   // each is a word, a name or a path
      if (value.find('\0') != std::string::npos)
        throw Error(ErrorCode::usage, fmt::format("{}:{}: {} holds a zero byte", path, entry.line, printable(entry.key, 60)));
    entries.push_back(std::move(entry));
  }
}

// What the library says of a mistake, as ours.
template <class Read>
auto with_position(const std::string& path, Read&& read) {
  try {
    return read();
  } catch (const toml::parse_error& mistake) {
    throw Error(ErrorCode::usage,
                fmt::format("{}:{}: {}", path, mistake.source().begin.line, printable(mistake.description(), 200)));
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, const std::string& path) {
  return with_position(path, [&] {
    std::vector<TomlEntry> entries;
    flatten(toml::parse(text, path), "", path, entries);
    return entries;
  });
}

TomlTables read_toml_tables(std::string_view text, const std::string& array, const std::string& path) {
  return with_position(path, [&] {
    TomlTables result;
    toml::table document = toml::parse(text, path);
    if (const toml::node* found = document.get(array)) {
      const toml::array* tables = found->as_array();
      if (!tables || !tables->is_homogeneous(toml::node_type::table))
        throw Error(ErrorCode::usage, fmt::format("{}:{}: expected tables: [[{}]]", path, found->source().begin.line, array));
      for (const toml::node& table : *tables) {
        result.tables.push_back({{}, table.source().begin.line});
        flatten(*table.as_table(), "", path, result.tables.back().entries);
      }
      document.erase(array);
    }
    flatten(document, "", path, result.outside);
    return result;
  });
}

}  // namespace thole::wire
