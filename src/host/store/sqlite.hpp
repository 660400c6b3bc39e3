// SQLite as values: an open file, rows of a query, a transaction. Everything that fails throws Error(unavailable).
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace thole::host {

struct Blob { std::string_view bytes; };

// A query that has been given its values. Destroying it makes its statement ready for the next use.
class Rows {
 public:
  Rows(sqlite3_stmt* statement, bool owned) : statement_(statement), owned_(owned) {}
  Rows(Rows&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)), owned_(other.owned_) {}
  Rows& operator=(Rows&&) = delete;
  ~Rows();

  bool next();                                   // false: no more rows
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::uint64_t count(int column) const { return static_cast<std::uint64_t>(integer(column)); }
  std::optional<std::int64_t> maybe(int column) const;
  std::optional<WallTime> maybe_time(int column) const;
  std::string_view text(int column) const;       // valid until the next row; "" for null
  std::string_view blob(int column) const;

  void bind(int index, std::nullptr_t);
  void bind(int index, std::string_view text);   // its bytes must live as long as this
  void bind(int index, Blob blob);
  void bind(int index, WallTime time) { bind(index, time.time_since_epoch().count()); }
  template <std::integral Number>
  void bind(int index, Number number) { bind_integer(index, static_cast<std::int64_t>(number)); }
  template <class T>
  void bind(int index, const std::optional<T>& value) {
    if (value) bind(index, *value);
    else bind(index, nullptr);
  }

 private:
  void bind_integer(int index, std::int64_t number);
  sqlite3_stmt* statement_;
  bool owned_;
};

class Database {
 public:
  // The file must exist, or be made by SQLite with mode 0644 less the umask. `vfs`: nullptr for the system's.
  Database(std::string path, const char* vfs);
  // As SQLite's URI says, and never to write.
  struct OnlyLooks {};
  static constexpr OnlyLooks only_looks{};
  Database(const std::string& uri, OnlyLooks);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // `sql` is a literal: its statement is prepared once and kept under its address. One use of it at a time.
  template <class... Values>
  Rows query(const char* sql, const Values&... values) { return give(Rows(prepared(sql), false), values...); }

  // For text put together at run time; the statement is not kept.
  Rows query_once(const std::string& sql) { return Rows(prepare(sql.c_str(), 0), true); }

  // Runs a statement without rows to its end. Gives how many rows it changed.
  template <class... Values>
  std::uint64_t run(const char* sql, const Values&... values) {
    query(sql, values...).next();
    return static_cast<std::uint64_t>(sqlite3_changes64(handle_));
  }
  void execute(const char* script);              // several statements, none of them kept
  std::int64_t integer(const char* sql);         // the first column of the first row; 0 where there is none
  std::int64_t last_id() const { return sqlite3_last_insert_rowid(handle_); }
  bool in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }
  sqlite3* handle() { return handle_; }
  bool has_met_damage() { return note_damage(), met_damage_; }   // what it keeps in memory may be of no use any more

 private:
  void open(const char* name, int flags, const char* vfs);
  template <class... Values>
  static Rows give(Rows rows, const Values&... values) {
    [[maybe_unused]] int index = 0;
    (rows.bind(++index, values), ...);
    return rows;
  }
  void note_damage();
  sqlite3_stmt* prepared(const char* sql);
  sqlite3_stmt* prepare(const char* sql, unsigned flags);

  std::string path_;
  sqlite3* handle_ = nullptr;
  bool met_damage_ = false;
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace thole::host
