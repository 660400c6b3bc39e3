// Who a process belongs to and what it runs, as far as /proc tells this user.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "host/sysfs/tree.hpp"
#include "model/machine.hpp"

namespace thole::host {

std::optional<uid_t> owner_of(const Tree& tree, pid_t pid);

// The command line in one line, else the short name; "" when neither can be read. Not yet made printable.
std::string command_of(const Tree& tree, pid_t pid);

// Whether process numbers from a driver (the host's) mean nothing here, because this process lives in a pid namespace.
bool in_pid_namespace(const Tree& tree);

// Fills `user` and `command`. A user without a name is written as the number.
void name_processes(const Tree& tree, std::vector<model::GpuProcess>& processes);

}  // namespace thole::host
