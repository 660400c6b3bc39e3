#include "host/gpu/file/search.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace thole::host {

namespace {
constexpr std::string_view suffix = ".json";
}

std::vector<std::string> machine_directories(const std::string& first, const std::string& program) {
  std::vector<std::string> directories;
  if (!first.empty()) directories.push_back(first);
  std::size_t slash = program.rfind('/');
  if (slash == std::string::npos) return directories;
  std::string here = program.substr(0, slash);
  directories.push_back(here + "/../share/thole/machines");
  directories.push_back(here + "/machines");
  return directories;
}

std::vector<std::string> shipped_machines(const std::vector<std::string>& directories) {
  std::vector<std::string> names;
  for (const std::string& directory : directories) {
    std::error_code ignored;  // a directory that is not there has no machines
    for (std::filesystem::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
      std::string name = entry->path().filename().string();
      if (name.ends_with(suffix)) names.push_back(name.substr(0, name.size() - suffix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<std::string> machine_path(const std::string& name, const std::vector<std::string>& directories) {
  if (name.find('/') != std::string::npos || name.ends_with(suffix)) return name;
  for (const std::string& directory : directories) {
    std::string path = directory + "/" + name + std::string(suffix);
    if (::access(path.c_str(), F_OK) == 0) return path;
  }
  return std::nullopt;
}

}  // namespace thole::host
