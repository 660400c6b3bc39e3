#include "base/want.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.hpp"
#include "base/words.hpp"

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

std::string way_to_raise(int resource, std::uint64_t needed) {
  const bool files = resource == RLIMIT_NOFILE;
  const std::string value = needed == RLIM_INFINITY ? "unlimited" : std::to_string(needed);
  rlimit limit{};
  const bool soft_alone = ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && limit.rlim_max >= needed;
  if (soft_alone) return fmt::format("ulimit -S{} {}", files ? 'n' : 'f', value);
  const std::string hard = limit.rlim_max == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_max);
  return fmt::format("the hard limit is {}, too: go on from another shell, or: sudo prlimit --pid {} --{}={}", hard,
                     ::getppid(), files ? "nofile" : "fsize", value);
}

std::optional<Error> too_few_descriptors() {
  constexpr rlim_t needed = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return std::nullopt;
  return Error(ErrorCode::unavailable, fmt::format("only {} open files are allowed here, and {} are needed",
                                                   static_cast<unsigned long>(limit.rlim_cur),
                                                   static_cast<unsigned long>(needed)))
      .hint(way_to_raise(RLIMIT_NOFILE, 1024));
}

bool is_want(int sys_errno) { return *mend_of_want(sys_errno) != '\0'; }

std::string hint_of(const Error& error) {
  rlimit limit{};
  const bool limited = error.sys_errno() == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (!limited) return error.hint();
  return fmt::format("a file may have {} here (ulimit -f); {}", plural(limit.rlim_cur, "byte"),
                     way_to_raise(RLIMIT_FSIZE, RLIM_INFINITY));
}

Error not_had(const std::string& what, int sys_errno) {
  return Error(is_want(sys_errno) ? ErrorCode::unavailable : ErrorCode::internal, what)
      .because(sys_errno)
      .hint(mend_of_want(sys_errno));
}

Error not_started(const std::string& what, int sys_errno) {
  return Error(ErrorCode::unavailable, "cannot start " + what).because(sys_errno).hint(mend_of_want(sys_errno));
}

Error thread_not_started(int sys_errno) {
  constexpr std::size_t usual_stack = 8u << 20;
  if (sys_errno == EAGAIN) {
    void* room = ::mmap(nullptr, usual_stack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) sys_errno = errno;
    else ::munmap(room, usual_stack);
  }
  return not_started("a thread", sys_errno);
}

Error out_of_memory() { return not_had("cannot go on", ENOMEM); }

}  // namespace thole
