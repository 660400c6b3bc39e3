#include "cli/show/kept_outputs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace thole::cli {

namespace {

constexpr std::size_t most_in_memory = 4 * 1024 * 1024, most_own_files = 32;
constexpr std::size_t most_copied = 64 * 1024 * 1024;   // nobody is heard meanwhile
constexpr std::size_t one_shared_file = 256 * 1024 * 1024;     // its room is free when the last output in it has been shown
constexpr std::size_t copied_at_once = 64 * 1024;

std::size_t bytes_in_memory(const port::TaskOutput& output) {
  const std::size_t texts = output.output.text.size() + output.errors.text.size();
  return texts == 0 ? 0 : texts + sizeof output;
}

bool write_at(const Fd& file, std::string_view bytes, std::size_t at) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    at += static_cast<std::size_t>(n);
  }
  return true;
}

bool copy_into(const Fd& file, std::size_t to, const Fd& from, std::size_t size) {
  std::string piece(copied_at_once, '\0');
  for (std::size_t at = 0; at < size;) {
    const ssize_t n = ::pread(from.get(), piece.data(), std::min(copied_at_once, size - at), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || !write_at(file, {piece.data(), static_cast<std::size_t>(n)}, to + at)) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

bool KeptOutputs::open_file() {
  if (file_ && (file_.use_count() == 1 || end_ >= one_shared_file)) file_ = nullptr;
  if (file_) return true;
  Fd file = place_.make();
  if (!file) return false;
  file_ = std::make_shared<const Fd>(std::move(file));
  end_ = 0;
  return true;
}

// How much has gone into the file; where that has no room it stays where it is.
std::size_t KeptOutputs::append(port::Written& written) {
  const std::size_t size = written.file ? written.bytes : written.text.size();
  const bool may_copy = files_ >= most_own_files && size <= most_copied;
  const bool done = written.file ? may_copy && copy_into(*file_, end_, written.file, size)
                                 : write_at(*file_, written.text, end_);
  if (!done) return 0;
  written = {};
  end_ += size;
  return size;
}

KeptOutput KeptOutputs::keep(port::TaskOutput output) {
  KeptOutput kept;
  kept.is_there = true;
  const bool too_many = (output.output.file || output.errors.file) && files_ >= most_own_files;
  if ((too_many || in_memory_ + bytes_in_memory(output) > most_in_memory) && open_file()) {
    kept.at = end_;
    kept.output = append(output.output);
    kept.errors = append(output.errors);
    if (kept.output + kept.errors > 0) kept.file = file_;
  }
  const std::size_t files = (output.output.file ? 1 : 0) + (output.errors.file ? 1 : 0), bytes = bytes_in_memory(output);
  files_ += files;
  in_memory_ += bytes;
  if (files + bytes > 0) kept.rest = std::make_unique<port::TaskOutput>(std::move(output));
  return kept;
}

port::TaskOutput KeptOutputs::take_rest(KeptOutput& kept) {
  if (!kept.rest) return {};
  const std::unique_ptr<port::TaskOutput> rest = std::move(kept.rest);
  files_ -= (rest->output.file ? 1 : 0) + (rest->errors.file ? 1 : 0);
  in_memory_ -= bytes_in_memory(*rest);
  return std::move(*rest);
}

}  // namespace thole::cli
