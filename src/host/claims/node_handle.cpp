#include "host/claims/node_handle.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "base/text.hpp"

namespace thole::host {
namespace {

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
  if (::name_to_handle_at(directory, name.c_str(), &its.handle, &mount, name.empty() ? AT_EMPTY_PATH : 0) != 0) return "";
  std::string text = fmt::format("{}:", its.handle.handle_type);
  for (unsigned i = 0; i < its.handle.handle_bytes; ++i) text += fmt::format("{:02x}", its.bytes()[i]);
  return text;
}

Fd open_by_handle(int directory, const std::string& handle) {
  const std::size_t colon = handle.find(':');
  const std::string_view bytes = colon == std::string::npos ? std::string_view() : std::string_view(handle).substr(colon + 1);
  const auto type = parse_u64(std::string_view(handle).substr(0, std::min(colon, handle.size())));
  HandleRoom its{};
  bool good = type && !bytes.empty() && bytes.size() % 2 == 0 && bytes.size() / 2 <= MAX_HANDLE_SZ;
  for (std::size_t i = 0; good && i < bytes.size() / 2; ++i) {
    const char* const digits = bytes.data() + 2 * i;
    good = std::from_chars(digits, digits + 2, its.bytes()[i], 16).ptr == digits + 2;
  }
  if (!good) return errno = EINVAL, Fd();
  its.handle.handle_type = static_cast<int>(*type);
  its.handle.handle_bytes = static_cast<unsigned>(bytes.size() / 2);
  return Fd(above_standard(::open_by_handle_at(directory, &its.handle, O_RDWR | O_NONBLOCK | O_CLOEXEC)));
}

}  // namespace thole::host
