// Who belongs to the group that may claim.
#pragma once

#include <sys/types.h>

namespace thole::host {

// By the users' lists (which may ask the network). Root may claim always.
bool is_member(uid_t uid, gid_t group);

// By what a living process was given, which may be more than the lists say (newgrp, a container's --group-add).
// Whoever has started it is asked: a setuid program makes nobody a member.
bool process_is_member(pid_t pid, gid_t group);

// Has this user an entry in the users' lists? The subordinate ones, of which each user has thousands, have none.
bool has_account(uid_t uid);

}  // namespace thole::host
