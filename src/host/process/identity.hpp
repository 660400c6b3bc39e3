// Who a process is, beyond its number, which may be another's by the time that it is asked again.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.hpp"
#include "model/lane_record.hpp"

namespace thole::host {

// Of a descriptor of a process: it is the same for no other process until the next boot (Linux 6.9). 0: an older kernel.
std::uint64_t number_of_held(const Fd& process);

// Of a child of ours. A /proc of another pid namespace has another process under its number.
model::ProcessIdentity identity_of_child(pid_t pid);

}  // namespace thole::host
