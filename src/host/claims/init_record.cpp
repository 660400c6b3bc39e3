#include "host/claims/init_record.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr std::string_view mark = "thole init has made the directory. It must not be deleted while GPUs are claimed.\n";
constexpr std::size_t longest_record = 1 << 20;

// Room for any handle; none is longer.
union HandleRoom {
  file_handle handle;
  unsigned char room[sizeof(file_handle) + MAX_HANDLE_SZ];
  unsigned char* bytes() { return room + offsetof(file_handle, f_handle); }
};

}  // namespace

std::string handle_of(int directory, const std::string& name) {
  HandleRoom its{};
  its.handle.handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(directory, name.c_str(), &its.handle, &mount, 0) != 0) return "";
  std::string text = fmt::format("{}:", its.handle.handle_type);
  for (unsigned i = 0; i < its.handle.handle_bytes; ++i) text += fmt::format("{:02x}", its.bytes()[i]);
  return text;
}

Fd open_recorded(int directory, std::uint64_t device, const RecordedNode& node) {
  const std::string& handle = node.handle;
  const std::size_t colon = handle.find(':');
  const std::string_view bytes = colon == std::string::npos ? std::string_view() : std::string_view(handle).substr(colon + 1);
  const auto type = parse_u64(std::string_view(handle).substr(0, std::min(colon, handle.size())));
  HandleRoom its{};
  bool good = device == node.device && type && !bytes.empty() && bytes.size() % 2 == 0 && bytes.size() / 2 <= MAX_HANDLE_SZ;
  for (std::size_t i = 0; good && i < bytes.size() / 2; ++i) {
    const char* const digits = bytes.data() + 2 * i;
    good = std::from_chars(digits, digits + 2, its.bytes()[i], 16).ptr == digits + 2;
  }
  if (!good) return errno = EINVAL, Fd();
  its.handle.handle_type = static_cast<int>(*type);
  its.handle.handle_bytes = static_cast<unsigned>(bytes.size() / 2);
  Fd opened(above_standard(::open_by_handle_at(directory, &its.handle, O_RDWR | O_NONBLOCK | O_CLOEXEC)));
  struct stat found;
  if (!opened || (::fstat(opened.get(), &found) == 0 && found.st_ino == node.inode)) return opened;
  return errno = EINVAL, Fd();
}

InitRecord read_init_record(int file) {
  std::string text(longest_record, '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  if (size < 0) throw Error(ErrorCode::unavailable, "cannot read what init has noted").because(errno);
  text.resize(static_cast<std::size_t>(size));
  InitRecord record;
  for (std::string_view line : split_lines(text)) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() < 5 || words.size() > 6 || (words[0] != "node" && words[0] != "taken")) continue;
    const auto filesystem = parse_u64(words[2]), device = parse_u64(words[3]), inode = parse_u64(words[4]);
    if (filesystem && device && inode)
      (words[0] == "node" ? record.nodes : record.taken)
          .push_back({std::string(words[1]), *filesystem, *device, *inode, std::string(words.size() > 5 ? words[5] : "")});
  }
  return record;
}

// Never empty in between: what is in the file also says that the directory was complete once.
bool write_init_record(int file, const InitRecord& record) {
  std::string text(mark);
  const auto add = [&](const char* what, const RecordedNode& node) {
    text += fmt::format("{} {} {} {} {}{}{}\n", what, node.name, node.filesystem, node.device, node.inode,
                        node.handle.empty() ? "" : " ", node.handle);
  };
  for (const RecordedNode& node : record.nodes) add("node", node);
  for (const RecordedNode& node : record.taken) add("taken", node);
  const auto size = static_cast<ssize_t>(text.size());
  return ::pwrite(file, text.data(), text.size(), 0) == size && ::ftruncate(file, size) == 0;
}

}  // namespace thole::host
