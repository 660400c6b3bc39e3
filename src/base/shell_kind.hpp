// What a shell understands, and how a variable is set and unset in it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace thole {

// c: csh, tcsh, bsd-csh, which know setenv and no export. fish knows export and no unset.
enum class ShellKind { posix, c, fish };

// Asked only where it matters: the answer takes a look at processes. Empty: a POSIX one.
using AskShell = std::function<ShellKind()>;

// "unset A B" as that shell has it.
std::string unset_in(ShellKind shell, const std::vector<std::string>& names);
std::string unset_in(const AskShell& shell, const std::vector<std::string>& names);

// What `thole claim --shell` has set, and whoever ends such a claim has to unset.
std::string unset_claim_in(const AskShell& shell);

// "export A=1"; the value is quoted already.
std::string set_in(ShellKind shell, std::string_view name, const std::string& value);

}  // namespace thole
