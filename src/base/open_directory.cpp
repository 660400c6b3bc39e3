#include "base/open_directory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole {

namespace {
constexpr std::string_view descriptors = "/proc/self/fd/";
}

std::string way_into(int directory, const std::string& name) {
  std::string way = fmt::format("{}{}", descriptors, directory);
  struct stat open {}, there {};
  const bool leads_there =
      ::fstat(directory, &open) == 0 && ::stat((way + "/.").c_str(), &there) == 0 && is_one_file(open, there);
  return leads_there ? way : name;
}

bool leads_through_open(const std::string& path) { return path.starts_with(descriptors); }

std::string shown_path(const std::string& path) {
  constexpr std::string_view deleted = " (deleted)";   // as the kernel writes
  if (!leads_through_open(path)) return path;
  const std::size_t end = std::min(path.find('/', descriptors.size()), path.size());
  std::array<char, 4096> text{};
  const ssize_t size = ::readlink(path.substr(0, end).c_str(), text.data(), text.size());
  if (size <= 0) return path;
  std::string_view name(text.data(), static_cast<std::size_t>(size));
  if (name.ends_with(deleted)) name.remove_suffix(deleted.size());
  return std::string(name) + path.substr(end);
}

}  // namespace thole
