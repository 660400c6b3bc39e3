#include "host/entries.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <memory>
#include <string_view>

#include "base/fd.hpp"

namespace thole::host {

void for_each_entry(int directory, const std::function<bool(const char* name)>& visit) {
  Fd own = open_at(directory, ".", O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(own ? ::fdopendir(own.get()) : nullptr, &::closedir);
  if (!listing) return;
  own.release();
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !visit(entry->d_name)) return;
  }
}

std::vector<std::string> entries_in(int directory) {
  std::vector<std::string> names;
  for_each_entry(directory, [&](const char* name) { return names.emplace_back(name), true; });
  return names;
}

}  // namespace thole::host
