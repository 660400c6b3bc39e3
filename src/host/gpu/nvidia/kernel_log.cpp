#include "host/gpu/nvidia/kernel_log.hpp"

#include <sys/klog.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace thole::host::nvidia {
namespace {

constexpr int syslog_action_read_all = 3;  // syslog(2) gives it no name in a header
constexpr std::size_t most = 256u << 10;

// What stands before the text: "<4>[   12.3456] [ T99] " of syslog(2) and dmesg, "4,1234,12345678,-;" of /dev/kmsg.
std::string_view text_of(std::string_view line) {
  if (!line.empty() && line.front() >= '0' && line.front() <= '9')
    return line.substr(std::min(line.find(';'), line.size() - 1) + 1);
  for (std::size_t end; !line.empty(); line.remove_prefix(end + 1)) {
    line = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    const char opens = line.empty() ? '\0' : line.front();
    if (opens != '<' && opens != '[') break;
    end = line.find(opens == '<' ? '>' : ']');
    if (end == std::string_view::npos) break;
  }
  return line;
}

// "PCI:0000:07:00): 79, …" and, of old drivers, "0000:07:00): 79, …".
struct Entry {
  model::PciAddress gpu;
  int xid;
  std::string_view rest;
};
std::optional<Entry> parse_entry(std::string_view text) {
  constexpr std::string_view begin = "NVRM: Xid (", bus = "PCI:", middle = "): ";
  if (!text.starts_with(begin)) return std::nullopt;
  text.remove_prefix(begin.size());
  if (text.starts_with(bus)) text.remove_prefix(bus.size());
  const std::size_t end = text.find(middle);
  if (end == std::string_view::npos || end > 20) return std::nullopt;
  std::string address(text.substr(0, end));
  if (address.find('.') == std::string::npos) address += ".0";
  const auto gpu = model::PciAddress::parse(address);
  text.remove_prefix(end + middle.size());
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto xid = parse_u64(text.substr(0, digits));
  if (!gpu || !xid || *xid > 100'000) return std::nullopt;
  return Entry{*gpu, static_cast<int>(*xid), text.substr(digits)};
}

// "…, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)" -> 2.
std::optional<std::uint64_t> parse_action(std::string_view text) {
  constexpr std::string_view before = " to 0x";
  const std::size_t at = text.rfind(before);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + before.size());
  return parse_u64(text.substr(0, text.find_first_not_of("0123456789abcdef")), 16);
}

void note(LoggedXids& gpu, const Entry& entry) {
  constexpr int recovery_action = 154;
  gpu.last = entry.xid;
  const auto action = entry.xid == recovery_action ? parse_action(entry.rest) : std::nullopt;
  if (action) gpu.action = action;
  if (action == 0u) gpu.fatal.reset(), gpu.action.reset();
  else if (is_fatal_xid(static_cast<std::uint64_t>(entry.xid)) && !gpu.fatal) gpu.fatal = entry.xid;
}

}  // namespace

bool is_fatal_xid(std::uint64_t xid) {
  constexpr std::array<std::uint64_t, 10> fatal{48, 62, 64, 74, 79, 95, 119, 120, 140, 154};
  return std::find(fatal.begin(), fatal.end(), xid) != fatal.end();
}

std::map<model::PciAddress, LoggedXids> parse_xids(std::string_view log) {
  std::map<model::PciAddress, LoggedXids> gpus;
  for (std::size_t at = log.find("NVRM: "); at != std::string_view::npos; at = log.find("NVRM: ", at)) {
    const std::size_t begin = log.rfind('\n', at) + 1, end = std::min(log.find('\n', at), log.size());
    const std::string_view text = text_of(log.substr(begin, end - begin));
    if (text.starts_with("NVRM: loading NVIDIA ")) gpus.clear();  // what was before concerned another life of the driver
    if (const auto entry = parse_entry(text)) note(gpus[entry->gpu], *entry);
    at = end;
  }
  return gpus;
}

std::optional<std::string> read_kernel_log(const Tree& tree) {
  if (!tree.live()) return tree.text("/dev/kmsg");
  std::string log(most, '\0');
  const int size = ::klogctl(syslog_action_read_all, log.data(), static_cast<int>(log.size()));
  if (size < 0) return std::nullopt;
  log.resize(static_cast<std::size_t>(size));
  return log;
}

}  // namespace thole::host::nvidia
