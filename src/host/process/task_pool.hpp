// Many short commands side by side: the real implementation of port::TaskPool.
//
// How it works. Each bay has a Launch that is used again and again, so that a task costs what vfork, exec and exit cost and
// little else: its end is told by a pidfd in one epoll set, what it writes goes to a file of its bay that is used again as
// long as it stays empty. Its process group is its own, so that a signal reaches all of it; we are the subreaper, so that what
// outlives the command becomes our child and its end is told too. A command that has ended is not waited for before its group
// has: until then no stranger can be given the number by which the group is signalled.
//
// Who is asked to end is asked with all that is below it then: timeout(1) and a shell's `set -m` make groups of their own.
// These are remembered, for who was below the command is nobody's once that has ended; the task is not over before they are.
//
// What a running task leaves to us is waited for while it runs: a task is not to run out of processes by zombies of ours.
// SIGCHLD tells of all ends, those of tasks too. It has a descriptor of its own, edge-triggered and not read before a look at
// the children is due: until then further ends make no event, for the signal is pending already. So thousands of tasks a second
// cost a look now and then. Each end is heeded at once only while something of an ended task lives.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/nameless_files.hpp"
#include "base/time.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/signals.hpp"
#include "host/process/spawn.hpp"
#include "host/process/tree.hpp"
#include "port/task_pool.hpp"

namespace thole::host {

class EpollPool : public port::TaskPool {
 public:
  // `folder`: where files without a name can be made.
  EpollPool(const InheritedSignals& inherited, port::OutputTo output, std::string folder);
  ~EpollPool() override;

  std::size_t open(port::ProcessSpec spec, std::optional<std::size_t> again = {}) override;
  void close(std::size_t bay) override;
  std::vector<std::string>& words(std::size_t bay) override;
  void check_program(const std::string& program) override;
  void start(std::size_t bay) override;
  void signal(std::size_t bay, model::Signal signal) override;
  std::vector<std::string> group(std::size_t bay) override;
  bool has_ended(std::size_t bay) override;
  std::vector<std::string> out_of_reach() override;
  void give_up(std::size_t bay) override;
  port::TaskOutput take_output(std::size_t bay) override;
  void watch(int fd) override;
  void unwatch(int fd) override;
  void keep_texts(bool on) override;
  std::span<const port::PoolEvent> wait(std::optional<SteadyTime> deadline) override;
  void stop_all() override;
  port::Strays strays(const std::vector<std::string>& claims) override;
  std::vector<std::string> end_strays(const port::Whose& whose, model::Signal signal) override;
  void give_up_strays(const port::Whose& whose) override;

 private:
  // One of a task's two streams.
  struct Stream {
    Fd file;                                     // what it writes to, or our end of its pipe
    std::string buffer;                          // of a pipe: what was read since the last wait
  };
  struct Bay {
    port::ProcessSpec spec;
    std::unique_ptr<Launch> launch;              // made by the first start
    pid_t pid = 0;                               // of the task, and its group; not waited for yet. 0: idle
    Fd end;
    Stream output, errors;
    bool left_group = false;                     // the command has ended, its group has not, or some of `beside`
    std::vector<ProcessStat> beside;             // below the command or its group, outside of that, and were asked to end
    bool given_up = false;                       // what lives of it has its files
    bool may_be_cut = false;                     // the disk of its files has filled up since it began
  };
  enum class Source : std::uint32_t { task, output, errors, watched, signals, children, unheard };

  void listen(int fd, Source source, std::size_t number, std::uint32_t events = EPOLLIN) const;
  void forget(Fd& fd) const;
  void listen_for_end(Bay& bay, std::size_t number);
  void prepare_streams(Bay& bay, std::size_t number);
  Fd nameless_file();
  static port::Written take(Stream& stream, bool used_again, std::string& lost);
  static bool is_at_limit(const port::Written& written);
  void look_for_room(Bay* ended = nullptr);
  static std::uint64_t written_by(const Bay& bay);   // to its files, so far
  static bool has_file_on_disk(const Bay& bay);
  void happened(Source source, std::size_t number);
  void ended(std::size_t number);
  void read_stream(std::size_t number, bool errors, bool all);
  void end_streams(std::size_t number);
  void let_go(Stream& stream);
  void drop_unheard(int fd);
  void read_signals();
  void look_at_groups();
  static void signal_command(pid_t command, int number);
  bool group_lives(Bay& bay) const;
  void let_go_of_group(Bay& bay);
  std::vector<ProcessStat> all_of(const Bay& bay);
  bool is_command(pid_t child) const;
  std::vector<ProcessStat> members() const;
  bool heeds_each_end() const;
  void look_at_children();
  enum class Reaped { lives, ended, none };
  Reaped reap(idtype_t of, pid_t number);        // a child, or one of a group
  bool reap_orphans();
  static bool has_living_children();
  bool has_other_children();
  bool may_others_write() const;
  struct Stray {
    ProcessStat process;
    std::string claim;                           // that it shows, or its parent does; empty: none
    bool may_be_spared = false;                  // where it shows none of our claims: others may have left it
  };
  std::vector<Stray> left_behind(std::vector<ProcessStat>* of_tasks = nullptr) const;
  std::vector<ProcessStat> strays_of(const port::Whose& whose, std::vector<ProcessStat>* others = nullptr) const;
  bool lives_unlisted() const;

  const InheritedSignals& inherited_;
  AllSignalsBlocked blocked_;
  port::OutputTo to_;
  NamelessFiles files_;
  Fd epoll_, signals_, children_;
  std::vector<std::unique_ptr<Bay>> bays_;       // null: closed
  std::vector<epoll_event> ready_;
  std::vector<port::PoolEvent> events_;
  std::deque<Fd> unheard_;                       // pipes of tasks that are over, to which somebody may still write
  std::size_t groups_left_ = 0;
  bool keeps_texts_ = false;
  bool strays_left_ = false;
  bool stirred_ = false;                         // SIGCHLD has come since the last look at the children
  SteadyTime next_look_{};                       // not before, but where each end is heeded
  SteadyTime look_for_room_{};                   // on the disk of the tasks' files, the next time
  bool little_room_ = false;                     // there, when that was looked at last
  std::uint64_t written_when_looked_ = 0, written_by_ended_ = 0;   // bytes
  std::optional<std::vector<ProcessStat>> picture_;   // of all below us, since the last wait
  ToldOnce out_of_reach_, spared_;
  // Children that are not ours to end: that were there before (those of a shell that has become us by exec), or are given up.
  std::vector<pid_t> strangers_ = listed_children().value_or(std::vector<pid_t>{});
  const std::size_t most_unheard_;
  const bool had_strangers_;
  const std::uint64_t since_ = ticks_now();      // what was started earlier is of no task
  std::vector<std::string> claims_;              // that were asked for last
};

}  // namespace thole::host
