// How commands reach runner and lanes on this machine: the real implementation of port::QueueDoor.
//
// How a runner is started. The program is run again as `thole __runner`, with nothing of the caller's: no descriptor (one could
// be a lock of the claim we are inside of), no terminal, no session, and only those variables it needs. It forks once more at
// once, so that it is nobody's child: whoever started it neither waits for it nor ends it with his own tree (tree.hpp knows its
// name). Who starts one has `start` locked until it sits, so that of a hundred who wait for a job one does.
#pragma once

#include <map>

#include "host/process/detached.hpp"
#include "host/queue/queue_files.hpp"
#include "port/queue_door.hpp"

namespace thole::host {

// Added to its command: a runner that has the one that sits leave first (port::Lanes::relieve).
inline constexpr const char* relieving_runner = "relieve";

class LocalDoor : public port::QueueDoor {
 public:
  // `command`: how the runner of this queue is started. `patience`: with one that has been killed, until it has ended.
  LocalDoor(std::string directory, BareCommand command, Millis patience = Millis{5'000})
      : files_(std::move(directory)), command_(std::move(command)), patience_(patience) {}

  // Has this process made the queue's file newer than who sits may know? Such a runner leaves as soon as it is told anything,
  // and is followed by one of ours. May be empty.
  std::function<bool()> file_was_made_newer;

  std::optional<pid_t> runner();                 // where one is seen to live; 0: in another pid namespace

  void stir() override;
  void nudge(std::uint64_t lane) override;
  std::optional<pid_t> stopped_runner() override;
  std::optional<pid_t> stopped_lane(std::uint64_t lane) override;
  std::vector<std::string> left_of(const model::Task& task, const std::string& mark) override;
  std::optional<port::UnseenRun> unseen(const model::Task& task, const std::string& mark) override;
  std::optional<port::NotedEnd> noted_end(const model::Task& task) override;
  std::string last_said() const override;
  std::string full_disk() const override;
  std::string read_only_disk() const override;
  bool relieve(const Files& files, bool awaited) override;
  std::optional<model::JobId> job_of_lane(pid_t pid) override;
  Fd runner_end() override;
  std::string surroundings(const std::vector<std::string>& files) override;
  std::string log_path(const std::string& name) const override { return files_.logs() + "/" + name; }
  void forget_logs(model::JobId job) override;
  void settle_code(const Owner& owner) override;

 private:
  bool is_left_by_an_older() const { return !followed_ && file_was_made_newer && file_was_made_newer(); }
  bool told(SteadyTime give_up);   // a runner that lives was; throws when one that was killed has not ended by then
  std::optional<pid_t> start_runner(const BareCommand& command) const;
  [[noreturn]] void does_not_leave(pid_t runner) const;
  bool sits_down(std::optional<pid_t> started) const;
  std::string says_why() const;

  std::optional<pid_t> process_of_lane(unsigned lane) const;   // where it lives and its number is sure
  bool lane_works(unsigned lane) const;
  bool would_see_more() const;                   // than the runner that lives

  QueueFiles files_;
  BareCommand command_;
  Millis patience_;
  bool followed_ = false;                        // an older runner has been, if there was one
  bool waited_in_vain_ = false;                  // for a runner that does not leave
};

// The command that starts a runner which stays where a user's processes end with his session (host/surroundings/logout.hpp).
BareCommand under_user_manager(const BareCommand& command);

// In that first process: tell the pid of a child that is nobody's, and go on in that one, under the name by which supervisors
// leave it alone.
void become_runner_process();

}  // namespace thole::host
