#include "base/want.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "base/words.hpp"

namespace thole {

const char* mend_of_want(int sys_errno) {
  switch (sys_errno) {
    case EAGAIN: return "raise the limit of processes (ulimit -u) or of memory (ulimit -v)";
    case ENOMEM: return "memory is short: end something, or see the limit: ulimit -v";
    case EMFILE: return "raise the descriptor limit: ulimit -n";
    case ENFILE: return "the machine has no descriptors left: fs.file-max";
    default: return "";
  }
}

namespace {

// What shells and prlimit(1) call a limit; a shell counts in these bytes.
struct LimitName {
  int resource;
  char letter;
  const char* word;
  std::uint64_t unit;
};
constexpr LimitName limit_names[] = {
    {RLIMIT_NOFILE, 'n', "nofile", 1}, {RLIMIT_FSIZE, 'f', "fsize", 1}, {RLIMIT_STACK, 's', "stack", 1024}};

}  // namespace

std::string way_to_raise(int resource, std::uint64_t needed) {
  const LimitName& name = *std::ranges::find(limit_names, resource, &LimitName::resource);
  const auto in = [&](std::uint64_t unit) { return needed == RLIM_INFINITY ? "unlimited" : std::to_string(needed / unit); };
  rlimit limit{};
  const bool soft_alone = ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && limit.rlim_max >= needed;
  if (soft_alone) return fmt::format("ulimit -S{} {}", name.letter, in(name.unit));
  const std::string hard = limit.rlim_max == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_max);
  return fmt::format("the hard limit is {}, too: go on from another shell, or: sudo prlimit --pid {} --{}={}", hard,
                     ::getppid(), name.word, in(1));
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

std::optional<Error> too_little_stack() {
  constexpr rlim_t needed = 256 << 10;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= needed) return std::nullopt;
  return Error(ErrorCode::unavailable, fmt::format("only {} KiB of stack are allowed here, and {} are needed",
                                                   static_cast<unsigned long>(limit.rlim_cur >> 10), needed >> 10))
      .hint(way_to_raise(RLIMIT_STACK, 8 << 20));
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
