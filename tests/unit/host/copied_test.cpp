#include "host/process/copied.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace thole::host {
namespace {

// The kernel here need not have Yama: what it would be asked is told by another answer.
constexpr int asked_for_itself = 77, asked_for_another = 78, no_seccomp = 79;

int what_is_asked_of_yama() {
  constexpr auto argument = [](unsigned at) { return static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * at); };
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 6),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PTRACER, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(::getpid()), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | asked_for_itself),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | asked_for_another),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof rules / sizeof *rules, rules};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return no_seccomp;
  errno = 0;
  return let_descendants_copy() ? 0 : errno;
}

TEST(Copied, OnlyWhatThisProcessHasStartedIsLetIn) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(what_is_asked_of_yama());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_seccomp) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(WEXITSTATUS(status), asked_for_itself);
}

}  // namespace
}  // namespace thole::host
