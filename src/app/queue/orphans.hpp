// Tasks whose lane is dead: what its record says of them becomes their end, and what lives of them is looked after until it has
// ended. The runner does so in the lane's place: `cancel`, `pause`, `continue` and the time limit go on to hold.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/queue/crash_rules.hpp"
#include "app/queue/orphan.hpp"
#include "app/queue/orphan_progress.hpp"
#include "app/queue/ports.hpp"
#include "app/queue/trouble.hpp"
#include "port/seen_record.hpp"

namespace thole::app {

// What a dead lane has left.
struct LeftRecord {
  std::shared_ptr<const port::SeenRecord> record{};   // null, or empty, where it is missing
  bool is_copy = false;                          // of another queue's
  bool of_another_moment = false;                // than its lane wrote it last
};

class Orphans {
 public:
  explicit Orphans(const QueuePorts& ports) : ports_(ports) {}

  void of_queue(HashKey secret, std::uint32_t store) {
    secret_ = secret;
    store_ = store;
    progress_.of_queue(secret);
  }

  model::Boots& boots() { return boots_; }

  // A task that the store says runs in a lane that is dead. The next look settles it.
  void take_up(const model::Task& task, LeftRecord left);

  // Throws what the store throws. One that cannot be looked at is no worse for the others.
  void look_after();
  std::optional<SteadyTime> next_look() const;
  std::vector<int> ends() const;                 // descriptors; one that is readable calls for a look
  std::vector<pid_t> commands() const;           // whose statuses are asked for

  bool empty() const { return orphans_.empty(); }
  port::RunnerSight sight() const;               // by the last look: another runner may see more
  bool any_is_unseen() const {
    return std::ranges::any_of(orphans_, [](const Orphan& orphan) { return orphan.unseen.has_value(); });
  }
  bool none_is_seen() const {
    return std::ranges::all_of(orphans_, [](const Orphan& orphan) { return orphan.unseen.has_value(); });
  }
  bool contains(const model::Task& task) const;
  bool have_lane(unsigned number) const;

 private:
  void look_at_all();
  std::optional<Remains> look_at(Orphan& orphan);
  std::optional<Remains> first_look_at(Orphan& orphan);
  void trace(Orphan& orphan);
  Remains remains(const Orphan& orphan) const {
    return remains_of(orphan.task, lane_record(orphan), orphan.boot, store_, orphan.is_copy || orphan.of_another_moment);
  }
  void refuse_untold(const Orphan& orphan, const Remains& remains) const;
  void say_untold(const Orphan& orphan, const std::string& text) const;
  bool lives(const Orphan& orphan) const;
  void look_at_neighbours(Orphan& orphan, std::optional<model::Signal> signal = {});
  bool another_explains(const Orphan& orphan) const;
  bool signal(Orphan& orphan, model::Signal signal);
  std::optional<Remains> with_status(Orphan& orphan, Remains left);
  static port::UnseenRun unseen_run(const Orphan& orphan, port::UnseenBy by, const std::string& why);
  std::optional<Remains> of_unseen(Orphan& orphan, const std::optional<model::Task>& task, const port::Unseen& unseen);
  void act_on(Orphan& orphan, const std::optional<model::Task>& task);
  void pause(Orphan& orphan, bool paused);
  void tell_again(Orphan& orphan);
  void next_step_against(Orphan& orphan);
  void find_living(Orphan& orphan);
  bool is_to_be_cancelled(const Orphan& orphan) const;
  port::Children::Child look_at_command(const Orphan& orphan) const;
  bool command_has_ended(const Orphan& orphan) const;
  void look_at_rest(Orphan& orphan);
  void record_end(const Orphan& orphan, const Remains& remains);

  const QueuePorts& ports_;
  model::Boots boots_{ports_.boot};
  HashKey secret_;                               // of the marks of the queue's tasks
  std::uint32_t store_ = 0;                      // which file they are in
  std::vector<Orphan> orphans_;
  OrphanProgress progress_{ports_};
};

}  // namespace thole::app
