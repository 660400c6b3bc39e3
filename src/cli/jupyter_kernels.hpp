// The notebook kernels that `thole jupyter` made, as Jupyter finds them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace thole::cli {

struct JupyterKernel {
  std::string name, shown, python, request;
};

// The one in this folder, if we wrote it; nullopt for anybody else's.
std::optional<JupyterKernel> read_jupyter_kernel(const std::filesystem::path& folder);

std::vector<JupyterKernel> jupyter_kernels(const std::filesystem::path& root);   // by name

}  // namespace thole::cli
