#include "base/ours.hpp"

#include <unistd.h>

namespace thole {

bool is_this_process(pid_t pid) { return pid == ::getpid(); }

bool is_of_our_session(pid_t pid) { return ::getsid(pid) == ::getsid(0); }

}  // namespace thole
