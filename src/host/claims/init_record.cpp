#include "host/claims/init_record.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/claims/node_handle.hpp"

namespace thole::host {
namespace {

constexpr std::string_view mark = "thole init has made the directory. It must not be deleted while GPUs are claimed.\n";
constexpr std::size_t longest_record = 1 << 20;

}  // namespace

Fd open_recorded(int directory, std::uint64_t device, const RecordedNode& node) {
  if (device != node.device) return errno = EINVAL, Fd();
  Fd opened = open_by_handle(directory, node.handle);
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
