// What a shell understands.
#pragma once

namespace thole {

// c: csh, tcsh, bsd-csh, which know setenv and no export. fish knows export and no unset.
enum class ShellKind { posix, c, fish };

}  // namespace thole
