#include "cli/jupyter_kernels.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/fd.hpp"
#include "model/json.hpp"

namespace thole::cli {

using model::Json;

std::optional<JupyterKernel> read_jupyter_kernel(const std::filesystem::path& folder) {
  const auto text = read_file(folder / "kernel.json");
  if (!text) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, false);
  const Json ours = json.is_object() ? json.value("metadata", Json::object()).value("thole", Json()) : Json();
  if (!ours.is_object()) return std::nullopt;
  return JupyterKernel{folder.filename(), json.value("display_name", ""), ours.value("python", ""), ours.value("request", "")};
}

std::vector<JupyterKernel> jupyter_kernels(const std::filesystem::path& root) {
  std::vector<JupyterKernel> kernels;
  std::error_code none;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(root, none))
    if (auto kernel = read_jupyter_kernel(entry.path())) kernels.push_back(*std::move(kernel));
  std::sort(kernels.begin(), kernels.end(), [](const JupyterKernel& a, const JupyterKernel& b) { return a.name < b.name; });
  return kernels;
}

}  // namespace thole::cli
