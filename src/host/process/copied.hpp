// Who may copy this process's descriptors where Yama is on.
#pragma once

namespace thole::host {

// What this process has started, at whatever distance, may look into it and copy its descriptors (pidfd_getfd): Yama
// (kernel.yama.ptrace_scope=1) lets a child do so only where it is said. Nobody else of the user may, nor any other user. False
// where there is no Yama: then whoever is of this user may.
bool let_descendants_copy();

}  // namespace thole::host
