// Port: many short commands side by side, from one process: started as fast as the machine can, and one sleep until
// something happens to any of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"
#include "port/processes.hpp"

namespace thole::port {

// Where tasks write to: our own stdout and stderr; files of their own, handed over at their end;
// or pipes, handed over as it comes.
enum class OutputTo { ours, files, pipes };

// What a task has written to one stream. Short texts are in memory, so that their file can be used again.
struct Written {
  std::string text;
  Fd file;                                       // else: a file without a name, to be read from its beginning
  std::uint64_t bytes = 0;
};

struct TaskOutput {
  Written output, errors;
  std::string cut{};                             // why it may not be all; empty: it is
};

// Something has happened.
struct PoolEvent {
  enum class Kind {
    ended,     // the command of `bay`, as `how` says
    alone,     // nothing of its process group is left any more (only after `left_group`)
    text,      // `bytes` came from `bay`, to stderr if `errors`; an empty text: that stream is over
    readable,  // the watched descriptor `number`
    signal,    // `number` was sent to us
  };
  Kind kind{};
  std::size_t bay = 0;
  int number = 0;
  Ended how;                                     // exit_code, signal and core only
  bool left_group = false;                       // processes of its group outlived it
  bool errors = false;
  std::string_view bytes;                        // until the next wait()
};

// Those that were started in this claim (THOLE_CLAIM, or within it). Without one: those that show none of `apart`.
struct Whose {
  std::string claim;
  std::vector<std::string> apart = {};
};

// What tasks have left behind, as one look has found it: "pid command", not yet printable.
struct Strays {
  std::map<std::string, std::vector<std::string>> of;   // by the claims that were asked for; who has left none is not in it
  std::vector<std::string> nobodys;              // they show none of these
  std::vector<std::string> spared;               // nor do these, who was there before the pool may have left them; each once
  bool unknown = false;                          // of nobody's some show none at all; or nobody was found, and there are some

  bool none() const { return of.empty() && nobodys.empty() && !unknown; }
};

// Bays for tasks, and the tasks in them.
class TaskBays {
 public:
  virtual ~TaskBays() = default;

  // A bay for one task at a time. Everything of `spec` is prepared once, but for argv. Tasks get an empty stdin and a process
  // group of their own; THOLE_PLACE tells them its number, from 1.
  virtual std::size_t open(ProcessSpec spec, std::optional<std::size_t> again = {}) = 0;   // again: an idle one, with its words
  virtual void close(std::size_t bay) = 0;       // an idle one; its number may be given out again

  // The words of the next task; kept from one to the next, so that their memory is.
  virtual std::vector<std::string>& words(std::size_t bay) = 0;

  // Throws Error(not_found | not_executable) for what could not be started either.
  virtual void check_program(const std::string& program) = 0;

  // Throws as Processes::start. Such a task leaves no event.
  virtual void start(std::size_t bay) = 0;
  virtual TaskOutput take_output(std::size_t bay) = 0;             // of files; once, after the end
};

// The process groups of tasks.
class TaskGroups {
 public:
  virtual ~TaskGroups() = default;

  // The whole process group, what is below it and the command now, and what was when it was signalled before: from then on
  // that counts as of the group.
  virtual void signal(std::size_t bay, model::Signal signal) = 0;
  virtual std::vector<std::string> group(std::size_t bay) = 0;     // what lives of it: "pid command", not yet printable
  virtual bool has_ended(std::size_t bay) = 0;   // the command, at this moment; its event may be still to come

  // Of the groups of all bays, who the kernel does not let us end: each once.
  virtual std::vector<std::string> out_of_reach() = 0;

  // What lives of the group, the command too, is not waited for any more; no event, nor is it found among strays.
  virtual void give_up(std::size_t bay) = 0;
};

// What tasks have left behind outside of their groups.
class TaskStrays {
 public:
  virtual ~TaskStrays() = default;

  // What tasks have left behind outside of their groups, and what is below that. wait() wakes at their ends as long as there
  // are any of whomever.
  virtual Strays strays(const std::vector<std::string>& claims) = 0;

  // TERM or KILL. Who the kernel does not let us end: each once, of groups too.
  virtual std::vector<std::string> end_strays(const Whose& whose, model::Signal signal) = 0;

  // They are not found among strays any more, nor what is below them.
  virtual void give_up_strays(const Whose& whose) = 0;
};

// While it lives all signals are blocked in the thread that made it, and in threads made since.
class TaskPool : public TaskBays, public TaskGroups, public TaskStrays {
 public:
  virtual void watch(int fd) = 0;                // not a regular file
  virtual void unwatch(int fd) = 0;

  // With OutputTo::pipes: while it holds, what running tasks write stays in their pipes, and so they wait when these are full.
  virtual void keep_texts(bool on) = 0;

  // Sleeps until something happens or the deadline comes; valid until the next call.
  virtual std::span<const PoolEvent> wait(std::optional<SteadyTime> deadline) = 0;

  // Stops this process as Ctrl-Z would, and its tasks with it, until it is continued.
  virtual void stop_all() = 0;
};

}  // namespace thole::port
