// Port: commands as processes: started, signalled, looked at, and one sleep until something happens to any of them. It
// knows no time limit, no ladder and no patience: plan/job/ending.hpp does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/time.hpp"
#include "model/command.hpp"
#include "port/processes.hpp"

namespace thole::port {

using Bay = std::uint32_t;                       // where one command at a time runs; numbered by the caller, from 0

// A process of a command, not yet printable.
struct Member {
  pid_t pid = 0;
  std::string name;                              // the kernel's short name of it
  std::string words;                             // "pid command"
};

// What lives of a command: itself as long as it runs, and all that came of it.
struct Rest {
  model::Left left{};                            // besides the command
  bool still = false;                            // all of it is stopped, and nobody is new since the look before
  std::vector<Member> who;                       // only where names were asked for; the command first
  std::vector<std::string> spared;               // … and that may be of who was there before the command: "pid command"
};

enum class Names : bool { no, yes };

struct CommandEnded {
  Bay bay = 0;
  model::HowEnded how;
  bool alone = false;                            // nothing else can be left of it
};
struct RestStirred {};                           // some of what commands have left behind has come or gone
struct Readable { int fd = -1; };                // one of those that are watched
struct Signalled { int number = 0; bool commands = false; };   // sent to us; `commands`: an affair of the command that runs
struct WeStop {};                                // Ctrl-Z: the next wait stands still, and the commands with us
struct WeSlept { Millis length{}; };             // it did; after each WeStop
using CommandEvent = std::variant<CommandEnded, RestStirred, Readable, Signalled, WeStop, WeSlept>;

class Commands {
 public:
  virtual ~Commands() = default;

  // Throws Error(not_found | not_executable | internal), and under `strict` Error(unavailable); no event then.
  virtual pid_t start(Bay bay, const ProcessSpec& spec) = 0;

  // Once to each process until another signal is sent; CONT after it, for a stopped process must run to hear it. Returns those
  // that the kernel does not let us signal, each once.
  virtual std::vector<std::string> send(Bay bay, model::Signal signal, model::SentTo to) = 0;

  virtual Rest look(Bay bay, Names names) = 0;

  virtual void let_go(Bay bay) = 0;              // it is over: what was made for it goes

  virtual void watch(int fd, bool on) = 0;       // not a regular file

  // Sleeps until something happens or the deadline comes; valid until the next call.
  virtual std::span<const CommandEvent> wait(std::optional<SteadyTime> deadline) = 0;
};

}  // namespace thole::port
