// A program of nothing but the life of a command: runs one as `thole run` does, with a file's lock in the place of a claim.
// The tests of signals, terminals and ends use it where they need a short patience or a lock of their own.
//   run_probe [--lock FILE] [--time SECONDS] [--patience MS] [--linger] [--become] [--chdir DIR] COMMAND…
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "app/claim/command_life.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "host/clock/system_clock.hpp"
#include "host/process/local_commands.hpp"
#include "host/process/local_processes.hpp"

int main(int argc, char** argv) {
  const auto inherited = thole::host::InheritedSignals::capture();
  thole::host::LocalProcesses processes(inherited);
  thole::port::ProcessSpec spec;
  thole::plan::Manner manner;
  thole::Fd lock;
  bool become = false;
  std::vector<std::string> words(argv + 1, argv + argc);
  std::size_t i = 0;
  for (; i < words.size() && words[i].starts_with("--"); ++i) {
    const std::string& option = words[i];
    if (option == "--linger") manner.leaves = thole::plan::Leaves::linger;
    else if (option == "--become") become = true;
    else if (option == "--time") manner.limit = thole::Seconds(std::atoi(words[++i].c_str()));
    else if (option == "--patience") manner.patience = thole::Millis(std::atoi(words[++i].c_str()));
    else if (option == "--chdir") spec.cwd = words[++i];
    else if (option == "--lock") {
      lock = thole::open_at(AT_FDCWD, words[++i].c_str(), O_RDWR);
      if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) { std::fprintf(stderr, "no lock\n"); return 75; }
      spec.keep.push_back(lock.get());
    }
  }
  spec.argv.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  thole::app::LifeEvents events;
  events.left_behind = [](const std::vector<std::string>& rest, bool) {
    for (const auto& process : rest) std::fprintf(stderr, "left behind: %s\n", process.c_str());
  };
  try {
    if (become) processes.become(spec);
    thole::host::LocalCommands commands(inherited, thole::host::LocalCommands::Runs::in_foreground);
    const auto ended = thole::app::live(commands, thole::host::SystemClock(), spec, manner, events);
    if (ended.time_limit) std::fprintf(stderr, "time limit\n");
    lock.reset();
    processes.end_as(ended);
  } catch (const thole::Error& error) {
    std::fprintf(stderr, "probe: %s\n", error.full().c_str());
    return thole::exit_status(error.code());
  }
}
