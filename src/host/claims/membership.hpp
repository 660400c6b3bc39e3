// Who belongs to the group that may claim.
#pragma once

#include <sys/types.h>

namespace thole::host {

// By the users' lists (which may ask the network). Root may claim always.
bool is_member(uid_t uid, gid_t group);

// By what a living process was given, which may be more than the lists say (newgrp, a container's --group-add).
bool process_is_member(pid_t pid, uid_t uid, gid_t group);

}  // namespace thole::host
