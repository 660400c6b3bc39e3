#include "base/want.hpp"

#include <cerrno>

namespace thole {

const char* mend_of_want(int sys_errno) {
  switch (sys_errno) {
    case EAGAIN: return "raise the limit of processes: ulimit -u";
    case ENOMEM: return "memory is short: end something, or see the limit: ulimit -v";
    case EMFILE: return "raise the descriptor limit: ulimit -n";
    case ENFILE: return "the machine has no descriptors left: fs.file-max";
    default: return "";
  }
}

bool is_want(int sys_errno) { return *mend_of_want(sys_errno) != '\0'; }

Error not_started(const std::string& what, int sys_errno) {
  return Error(ErrorCode::unavailable, "cannot start " + what).because(sys_errno).hint(mend_of_want(sys_errno));
}

}  // namespace thole
