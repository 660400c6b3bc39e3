#include "wire/carry.hpp"

#include <filesystem>

namespace thole::wire {

std::string from_anywhere(const std::string& path) {
  std::error_code lost;   // the directory that we are in was deleted
  const std::filesystem::path absolute = std::filesystem::absolute(path, lost);
  return (lost ? std::filesystem::path(path) : absolute).lexically_normal().string();
}

std::map<std::string, std::string> carried(const Settings& settings) {
  std::map<std::string, std::string> variables;
  if (!settings.machine.empty())
    variables["THOLE_MACHINE"] =
        settings.machine.find('/') == std::string::npos ? settings.machine : from_anywhere(settings.machine);
  if (!settings.state_dir.empty()) variables["THOLE_STATE_DIR"] = settings.state_dir;
  if (!settings.personal_dir.empty()) variables["THOLE_PERSONAL_DIR"] = settings.personal_dir;
  return variables;
}

}  // namespace thole::wire
