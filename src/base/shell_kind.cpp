#include "base/shell_kind.hpp"

#include "base/text.hpp"

namespace thole {

std::string unset_in(ShellKind shell, const std::vector<std::string>& names) {
  if (shell == ShellKind::c) return "unsetenv " + join(names, "; unsetenv ");   // one at a time
  return (shell == ShellKind::fish ? "set -e " : "unset ") + join(names, " ");
}

std::string unset_in(const AskShell& shell, const std::vector<std::string>& names) {
  return unset_in(shell ? shell() : ShellKind::posix, names);
}

std::string unset_claim_in(const AskShell& shell) {
  return unset_in(shell, {"THOLE_CLAIM", "THOLE_GPUS", "CUDA_VISIBLE_DEVICES"});
}

std::string set_in(ShellKind shell, std::string_view name, const std::string& value) {
  return shell == ShellKind::c ? fmt::format("setenv {} {}", name, value) : fmt::format("export {}={}", name, value);
}

}  // namespace thole
