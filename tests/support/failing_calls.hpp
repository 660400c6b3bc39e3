// Does something in a thread for which the kernel refuses to say what lies at a path (stat, statx): as where memory is short,
// or a disk does not answer. What is asked of an open descriptor it says.
#pragma once

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <functional>
#include <thread>

namespace thole::test {

// False where this system has no seccomp, and nothing was done.
inline bool where_no_path_can_be_seen(int why, const std::function<void()>& work) {
  constexpr auto number = offsetof(seccomp_data, nr);
  constexpr auto call = [](unsigned from) { return static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * from); };
  const auto refused = SECCOMP_RET_ERRNO | (static_cast<unsigned>(why) & SECCOMP_RET_DATA);
  // Flags are the fourth argument of newfstatat and the third of statx.
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 3, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, call(3)),
      BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, call(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, refused),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof rules / sizeof *rules, rules};
  bool there = false;
  std::thread([&] {
    there = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
    if (there) work();
  }).join();
  return there;
}

}  // namespace thole::test
