#include "host/claims/init_record.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr std::string_view mark = "thole init has made the directory. It must not be deleted while GPUs are claimed.\n";
constexpr std::size_t most_devices = 8, longest = 1 << 20;

}  // namespace

void InitRecord::add_device(std::uint64_t device) {
  std::erase(devices, device);
  devices.push_back(device);
  if (devices.size() > most_devices) devices.erase(devices.begin());
}

bool InitRecord::tells_of(const std::string& node) const {
  return std::any_of(held.begin(), held.end(), [&](const Held& other) { return other.node == node; });
}

InitRecord read_init_record(int file) {
  std::string text(longest, '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  InitRecord record;
  for (std::string_view line : split_lines(text)) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() == 2 && words[0] == "device") {
      if (auto device = parse_u64(words[1])) record.devices.push_back(*device);
    } else if (words.size() == 5 && words[0] == "held") {
      const auto pid = parse_u64(words[2]), start = parse_u64(words[3]), uid = parse_u64(words[4]);
      if (pid && start && uid)
        record.held.push_back({std::string(words[1]), static_cast<pid_t>(*pid), *start, static_cast<uid_t>(*uid)});
    }
  }
  return record;
}

// Never empty in between: what is in the file also says that the directory was complete once.
bool write_init_record(int file, const InitRecord& record) {
  std::string text(mark);
  for (std::uint64_t device : record.devices) text += fmt::format("device {}\n", device);
  for (const InitRecord::Held& held : record.held)
    text += fmt::format("held {} {} {} {}\n", held.node, held.pid, held.start, held.uid);
  const auto size = static_cast<ssize_t>(text.size());
  return ::pwrite(file, text.data(), text.size(), 0) == size && ::ftruncate(file, size) == 0;
}

}  // namespace thole::host
