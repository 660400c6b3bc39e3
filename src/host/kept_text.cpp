// How this works: the file is three lines and the text: what it is, the key, a checksum of the text. Nobody locks it: a writer
// renames a finished file into place, and whoever reads gets one of the two. The directory and the file must belong to this
// user and be writable by nobody else, because in /tmp others may have made them first; a checksum that does not fit is a file
// cut short by a full disk.
#include "host/kept_text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.hpp"
#include "base/hash.hpp"
#include "base/made.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

constexpr off_t largest_kept = 4 << 20;

bool mine_alone(const Fd& fd, mode_t type) {
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 && (status.st_mode & S_IFMT) == type && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && (type == S_IFDIR || status.st_size <= largest_kept);
}

Fd open_directory(const std::string& path) {
  if (path.empty()) return {};
  Fd directory = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  return directory && mine_alone(directory, S_IFDIR) ? std::move(directory) : Fd();
}

// Cuts the first line off `text`.
std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return line;
}

}  // namespace

std::string KeptText::head(std::string_view key, std::string_view text) const {
  return fmt::format("thole {} 1\n{}\n{:016x}\n", name_, printable(std::string(key), largest_kept), fnv1a(text));
}

std::optional<std::string> KeptText::find(std::string_view key) const {
  const Fd directory = key.empty() ? Fd() : open_directory(directory_);
  if (!directory) return std::nullopt;
  const Fd file = open_at(directory.get(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file || !mine_alone(file, S_IFREG)) return std::nullopt;
  const auto text = read_all(file.get(), largest_kept);
  if (!text) return std::nullopt;
  std::string_view body = *text;
  for (int line = 0; line < 3; ++line) take_line(body);
  if (!text->starts_with(head(key, body))) return std::nullopt;
  return std::string(body);
}

void KeptText::keep(std::string_view key, std::string_view text) const {
  if (key.empty() || directory_.empty()) return;
  make_directory(directory_, 0700);
  const Fd directory = open_directory(directory_);
  if (!directory) return;
  const std::string temporary = fmt::format("{}.{}", name_, ::getpid());
  ::unlinkat(directory.get(), temporary.c_str(), 0);  // left by a process of this number that was killed
  const Fd file = create_at(directory.get(), temporary.c_str(), O_WRONLY | O_EXCL | O_NOFOLLOW, 0600);
  if (!file) return;
  if (!write_all(file.get(), head(key, text) + std::string(text)) ||
      ::renameat(directory.get(), temporary.c_str(), directory.get(), name_.c_str()) != 0)
    ::unlinkat(directory.get(), temporary.c_str(), 0);
}

}  // namespace thole::host
