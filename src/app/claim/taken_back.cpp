#include "app/claim/taken_back.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"

namespace thole::app {

namespace {

// The path of a locked file that is another's by now; "" where it has its name, or nothing has.
std::string replaced_path(int lock) {
  constexpr std::string_view deleted = " (deleted)";   // as the kernel writes
  struct stat file, now;
  if (::fstat(lock, &file) != 0 || !S_ISFIFO(file.st_mode) || file.st_nlink != 0 || file.st_uid != 0) return "";
  char text[4096];
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", lock).c_str(), text, sizeof text);
  std::string path(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  if (!path.ends_with(deleted)) return "";
  path.resize(path.size() - deleted.size());
  const bool other = ::lstat(path.c_str(), &now) == 0 && S_ISFIFO(now.st_mode) && now.st_uid == 0;
  return other ? path : "";
}

}  // namespace

std::vector<std::string> taken_back(const Acquired& acquired) {
  std::vector<std::string> told;
  for (const int lock : acquired.claim.all_descriptors()) {
    const std::string path = replaced_path(lock);
    if (path.empty()) continue;
    for (std::size_t index : acquired.chosen) {
      const model::Unit& unit = acquired.units[index];
      const bool is_its = path.ends_with("/gpu." + unit.key) || path.find("/share." + unit.key + ".") != std::string::npos;
      const std::string text = fmt::format("GPU {} was taken back by root: others may have claimed it since", unit.label);
      if (is_its && std::ranges::find(told, text) == told.end()) told.push_back(text);
    }
  }
  return told;
}

}  // namespace thole::app
