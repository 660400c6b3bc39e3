// Runs a command in which some system calls do nothing but return, as under a container's seccomp profile.
//
//   without_calls CALL=ERRNO[,CALL=ERRNO...] COMMAND [ARGUMENT...]
//
// With errno 0 the call claims success and does nothing.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

const std::map<std::string, unsigned> numbers = {{"set_mempolicy", SYS_set_mempolicy},
                                                 {"get_mempolicy", SYS_get_mempolicy},
                                                 {"sched_setaffinity", SYS_sched_setaffinity}};

void usage() {
  std::fputs("usage: without_calls CALL=ERRNO[,CALL=ERRNO...] COMMAND [ARGUMENT...]\n", stderr);
  std::exit(2);
}

// For each call: not this one? then past its answer.
void add_rule(std::vector<sock_filter>& program, const std::string& rule) {
  const std::size_t equals = rule.find('=');
  const auto call = numbers.find(rule.substr(0, equals));
  if (equals == std::string::npos || call == numbers.end()) usage();
  const auto answer = static_cast<unsigned>(std::stoul(rule.substr(equals + 1)));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->second, 0, 1));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (answer & SECCOMP_RET_DATA)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) usage();
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  const std::string rules = argv[1];
  for (std::size_t at = 0; at <= rules.size();) {
    const std::size_t comma = std::min(rules.find(',', at), rules.size());
    add_rule(program, rules.substr(at, comma - at));
    at = comma + 1;
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::perror("without_calls: seccomp");
    return 77;                                   // this system has none: the tests skip
  }
  ::execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 127;
}
