#include "host/entries.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::host {

void for_each_entry(int directory, const std::function<bool(const char* name)>& visit) {
  Fd own = open_at(directory, ".", O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(own ? ::fdopendir(own.get()) : nullptr, &::closedir);
  if (!listing) return refuse_unseen(directory, errno);
  own.release();
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (!entry) return refuse_unseen(directory, errno);
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
