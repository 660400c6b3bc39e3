// A TOML document as a flat list of dotted keys; hides the library, which compiles slowly.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thole::wire {

struct TomlEntry {
  std::string key;                  // "request.wait"
  std::vector<std::string> values;  // numbers and booleans as text
  bool array = false;
  unsigned line = 0;
};

// In the order of the document's keys. Throws Error(usage) with file and line when it is no TOML, or holds dates or
// tables within arrays, which nothing here has a use for.
std::vector<TomlEntry> read_toml(std::string_view text, const std::string& path);

// A document with one array of tables, "[[array]]": what stands outside of it, and each table by itself. Throws as read_toml.
struct TomlTable {
  std::vector<TomlEntry> entries;
  unsigned line = 0;
};
struct TomlTables {
  std::vector<TomlEntry> outside;
  std::vector<TomlTable> tables;
};
TomlTables read_toml_tables(std::string_view text, const std::string& array, const std::string& path);

}  // namespace thole::wire
