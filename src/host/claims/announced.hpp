// What root's `thole init` is about, said to all who claim: a file of root's that counts while who made it lives. He has an OFD
// write lock on its first byte, from before anybody could open it: nobody else can have one, for the file is open to others to
// read only, and it ends with him, so that what a killed one leaves says nothing. It is seen from other pid namespaces too.
#pragma once

#include <sys/types.h>

#include "base/fd.hpp"
#include "host/claims/node_maker.hpp"

namespace thole::host {

// Until the descriptor is closed. Throws Error(unavailable).
Fd announce(int directory, const NodeMaker& maker, const char* name);

// Also where that cannot be told.
bool is_announced(int directory, const char* name, uid_t owner);

}  // namespace thole::host
