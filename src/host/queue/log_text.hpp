// Reads the text of one run of a task out of its log file, also while it grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.hpp"

namespace thole::host {

class LogText {
 public:
  // `length`: absent while the task runs. Throws Error(unavailable) when the file cannot be read.
  LogText(std::string path, std::uint64_t start, std::optional<std::uint64_t> length);

  // The next piece, at most 64 KiB; "" when there is none (yet). What the size cap cut out is named by a line in its place.
  std::string next();

  // From here on it is known how long it is.
  void ends_after(std::uint64_t length) { end_ = start_ + length; }
  bool has_end() const { return end_.has_value(); }

  // Nobody writes any more to it, and nobody has told how long it is.
  void ends_with_what_is_there() { end_ = present_end(); }

  // Another text begins there: what was read beyond is not of this one.
  void ends_at(std::uint64_t position) { end_ = std::min(end_.value_or(position), position); }

  // A run behind another one in the same file: what was read of it as the other's is not shown again.
  bool is_in(const std::string& path) const;
  const std::string& path() const { return path_; }
  std::uint64_t start() const { return start_; }
  std::uint64_t position() const { return at_; }
  void skip_to(std::uint64_t position) { at_ = std::max(at_, position); }
  void go_back_to(std::uint64_t position) { at_ = position; }

  // Goes to where the last so many lines of what is there begin.
  void skip_to_last(std::uint64_t lines);

  // Readable once the file has been written to; empty_growth() makes it wait for the next time.
  int growth();
  void empty_growth();

 private:
  std::uint64_t present_end() const;             // of what is there
  [[noreturn]] void cannot_read() const;

  std::string path_;
  Fd file_, growth_;
  std::uint64_t start_ = 0, at_ = 0;
  std::optional<std::uint64_t> end_;
};

}  // namespace thole::host
