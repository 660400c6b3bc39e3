// A signal to one process of a picture of /proc, and to no other.
#pragma once

#include "host/process/tree.hpp"

namespace thole::host {

// Through a pidfd, so that a pid reused since the picture was taken is not hit.
void signal_process(const ProcessStat& process, int signal);

}  // namespace thole::host
