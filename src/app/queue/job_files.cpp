#include "app/queue/job_files.hpp"

#include <string_view>

#include "base/text.hpp"

namespace thole::app {

std::vector<std::string> program_paths(const model::JobSpec& spec) {
  constexpr std::string_view path = "PATH=";
  const std::string program = spec.argv.empty() ? "" : spec.argv.front();
  if (program.starts_with('/')) return {program};
  if (program.find('/') != std::string::npos) return {spec.directory + "/" + program};
  if (program.empty()) return {};
  std::vector<std::string> paths;
  for (const std::string& variable : spec.environment) {
    if (!variable.starts_with(path)) continue;
    for (const std::string_view folder : split(std::string_view(variable).substr(path.size()), ':'))
      paths.push_back(fmt::format("{}/{}", folder, program));
  }
  return paths;
}

}  // namespace thole::app
