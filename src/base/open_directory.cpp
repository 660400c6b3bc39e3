#include "base/open_directory.hpp"

#include <algorithm>
#include <string_view>

#include "base/fd.hpp"
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
  std::string name = read_link(path.substr(0, end));
  if (name.empty()) return path;
  if (name.ends_with(deleted)) name.resize(name.size() - deleted.size());
  return name + path.substr(end);
}

}  // namespace thole
