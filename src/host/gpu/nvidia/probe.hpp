// The child side: `thole __probe nvidia`. Reads request lines, streams one record a GPU, ends each answer with a lone ".".
#pragma once

#include "host/probe/channel.hpp"

namespace thole::host::nvidia {

// Serves until the parent hangs up or asks nothing for a while; the exit status is of no meaning. A parent that hangs up while
// the driver comes up leaves it at work: see probe.cpp.
int serve_probe(ProbeChannel channel);

}  // namespace thole::host::nvidia
