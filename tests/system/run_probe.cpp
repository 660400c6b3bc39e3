// A program of nothing but the process module: runs a command as `thole run` does, with a file's lock in the place of a claim.
// The tests of signals, terminals and ends use it where they need a short patience or a lock of their own.
//   run_probe [--lock FILE] [--time SECONDS] [--patience MS] [--linger] [--become] [--chdir DIR] COMMAND…
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "host/process/local_processes.hpp"

int main(int argc, char** argv) {
  thole::host::LocalProcesses processes;
  thole::port::ProcessSpec spec;
  thole::port::SupervisePolicy policy;
  thole::Fd lock;
  bool become = false;
  std::vector<std::string> words(argv + 1, argv + argc);
  std::size_t i = 0;
  for (; i < words.size() && words[i].starts_with("--"); ++i) {
    const std::string& option = words[i];
    if (option == "--linger") policy.linger = true;
    else if (option == "--become") become = true;
    else if (option == "--time") policy.time_limit = thole::Seconds(std::atoi(words[++i].c_str()));
    else if (option == "--patience") policy.patience = thole::Millis(std::atoi(words[++i].c_str()));
    else if (option == "--chdir") spec.cwd = words[++i];
    else if (option == "--lock") {
      lock = thole::open_at(AT_FDCWD, words[++i].c_str(), O_RDWR);
      if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) { std::fprintf(stderr, "no lock\n"); return 75; }
      spec.keep.push_back(lock.get());
    }
  }
  spec.argv.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  policy.on_left_behind = [](const std::vector<std::string>& rest) {
    for (const auto& process : rest) std::fprintf(stderr, "left behind: %s\n", process.c_str());
  };
  try {
    if (become) processes.become(spec);
    pid_t pid = processes.start(spec);
    auto ended = processes.supervise(pid, policy);
    if (ended.time_limit) std::fprintf(stderr, "time limit\n");
    lock.reset();
    processes.end_as(ended);
  } catch (const thole::Error& error) {
    std::fprintf(stderr, "probe: %s\n", error.full().c_str());
    return thole::exit_status(error.code());
  }
}
