// Which processes are this one, or of its session.
#pragma once

#include <sys/types.h>

namespace thole {

bool is_this_process(pid_t pid);
bool is_of_our_session(pid_t pid);

}  // namespace thole
