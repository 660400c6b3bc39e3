#include "app/queue/runner.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "app/queue/abandoned_code.hpp"
#include "app/queue/crash_rules.hpp"
#include "app/queue/going_on.hpp"
#include "app/queue/job_names.hpp"
#include "app/queue/lane.hpp"
#include "app/queue/notify.hpp"
#include "app/queue/orphans.hpp"
#include "app/queue/put_off.hpp"
#include "app/queue/trouble.hpp"
#include "base/error.hpp"
#include "base/poke.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "plan/job/lanes.hpp"

namespace thole::app {

namespace {

constexpr Seconds first_back_off{15}, longest_back_off{600};   // of jobs whose GPUs cannot be had at all now
constexpr Seconds first_pause_after_deaths{1}, first_pause_of_want{1};
constexpr unsigned idle_put_up_with = 64;                       // others may have been quicker
constexpr Seconds first_pause_of_idle{1};
constexpr unsigned deaths_put_up_with = 2;                     // of lanes, one after another, before they had their claim
constexpr Seconds after_a_told_lane{1};                        // where everything is ended our own end comes in that time
constexpr Seconds between_looks{30};                           // at our files, where nobody tells of their removal
constexpr Seconds between_looks_in_trouble{1};
constexpr Seconds between_looks_at_a_child{1};                 // for whose end there was no descriptor

constexpr std::size_t most_unusable = 16;                      // lanes' files, before we take all for unusable

template <class Lane>
LeftRecord record_of(Lane& lane) {
  return {std::make_shared<const port::SeenRecord>(std::move(lane.record)), lane.is_copy, lane.of_another_moment};
}

// Something else lies in its place, or it is not for us. What the file system refuses as a whole, it refuses of others, too.
bool may_be_of_one_file(int sys_errno) {
  static constexpr int kinds[] = {0, EISDIR, ENXIO, ELOOP, EACCES, EPERM};
  return std::ranges::find(kinds, sys_errno) != std::end(kinds);
}

class Runner {
 public:
  Runner(const QueuePorts& ports, port::WallAlarm& alarm, const RunnerOptions& options, port::RunnerSeat seat)
      : ports_(ports), alarm_(alarm), options_(options), seat_(std::move(seat)) {}

  enum class Left { well, unseeing, relieved };   // unseeing: all that is left is what it does not see
  Left run();

 private:
  // A lane that lives.
  struct LaneKnown {
    plan::LaneState state;
    pid_t child = 0;                             // ours; 0: of a runner before us
    bool of_another_file = false;                // that was set aside: it ends by itself
    pid_t adopted = 0;                           // its number where it is sure
    Fd end;                                      // readable, or hung up, when its process has ended; empty for want of one
    Fd mail;                                     // to tell it
    port::SeenRecord record;
    bool is_copy = false;                        // of another queue's
    bool of_another_moment = false;              // than it wrote its record last

    model::JobId job() const { return record ? record->job.load() : state.job; }
  };
  struct BackOff {
    SteadyTime until;
    Seconds pause{0};
    unsigned deaths = 0;
  };

  void adopt();
  static void send_away(LaneKnown& lane);
  void adopt_lane(port::LaneView view);
  void look_at_unknown();
  void leave_alone(unsigned number, const std::string& problem);
  void look_after();                             // ends of lanes and of what they left
  enum class LaneLeft { well, idle, refused, wanting, storeless, told_to_end, died };
  static LaneLeft left_by(const model::HowEnded& how);
  void bury_others();
  void lane_ended(unsigned number, LaneLeft how);
  void back_off(const LaneKnown& lane, Seconds shortest);
  void settle();
  void rest_jobs();
  void plan();
  void start(const model::Job& job);
  void give_way(unsigned number);
  void tell_lanes();
  void tell_sight();
  bool overlap(std::uint64_t one, std::uint64_t other);
  void learn_class(const model::Job& job);
  port::LaneSeat free_seat(model::JobId job);
  bool idle() const {
    return lanes_.empty() && unsettled_.empty() && orphans_.none_is_seen() && !anything_to_do_ && !tasks_unknown_;
  }
  void sleep(std::optional<SteadyTime> deadline);
  std::optional<SteadyTime> next_look() const;
  void pass();

  const QueuePorts& ports_;
  port::WallAlarm& alarm_;
  const RunnerOptions& options_;
  port::RunnerSeat seat_;
  std::map<unsigned, LaneKnown> lanes_;
  std::map<unsigned, LeftRecord> unsettled_;     // of dead lanes
  std::set<unsigned> unknown_;                   // lanes that cannot be looked at: neither dead nor living, and not to be used
  bool tasks_unknown_ = false;                   // the store says that tasks run in these
  Orphans orphans_{ports_};
  std::map<std::uint64_t, std::set<std::string>> classes_;   // the units that would do for each request class
  std::map<std::uint64_t, BackOff> back_offs_;               // by request class
  std::map<model::JobId, unsigned> idle_lanes_;  // one after another that had nothing to do, though tasks of it were in line
  std::uint32_t store_ = 0;                      // which file our lanes and tasks are in
  bool anything_to_do_ = true;
  bool keeps_seat_ = true;
  Trouble untold_sight_;                         // what we see could not be told to all
  bool asked_to_leave_ = false;                  // by one who would see that
  bool untold_ = true;                           // a lane may not know what the store asks of its tasks
  bool lanes_left_ = true;                       // and it is not on the disk yet how far their jobs have come
  Trouble trouble_;                              // the store could not be written
  SteadyTime starts_again_{};                    // before that no lane begins
  Trouble full_;                                 // by a lane, which has given back its claim for that
};

// Lanes of runners before us. Tasks that the store says run in a lane of which there are not even files are settled, too.
void Runner::adopt() {
  std::vector<port::LaneView> views = ports_.lanes.look();
  for (const port::LaneView& view : views)
    if (view.record) orphans_.boots().learn(*view.record, view.held);
  ports_.jobs.booted(orphans_.boots(), ports_.clock.wall());
  store_ = ports_.jobs.origin();
  orphans_.of_queue(ports_.jobs.secret(), store_);
  std::set<std::uint64_t> known;
  for (port::LaneView& view : views) {
    known.insert(view.number);
    if (!view.problem.empty()) {
      leave_alone(view.number, view.problem);
    } else if (view.process) {
      adopt_lane(std::move(view));
    } else {
      unsettled_.emplace(view.number, record_of(view));
    }
  }
  for (const model::Task& task : ports_.jobs.running())
    if (!known.contains(task.lane)) unsettled_.emplace(static_cast<unsigned>(task.lane), LeftRecord{});
}

void Runner::look_at_unknown() {
  if (unknown_.empty()) return;
  for (port::LaneView& view : ports_.lanes.look()) {
    if (!view.problem.empty() || unknown_.erase(view.number) == 0) continue;
    if (view.process) adopt_lane(std::move(view));
    else unsettled_.emplace(view.number, record_of(view));
  }
  tasks_unknown_ = std::ranges::any_of(
      ports_.jobs.running(), [&](const model::Task& task) { return unknown_.contains(static_cast<unsigned>(task.lane)); });
}

void Runner::adopt_lane(port::LaneView view) {
  LaneKnown lane;
  untold_ = true;
  lane.state.number = view.number;
  lane.mail = std::move(view.mail);
  lane.end = std::move(view.process);
  lane.adopted = view.pid;
  lane.is_copy = view.is_copy;
  lane.of_another_moment = view.of_another_moment;
  if (view.record->store != 0 && view.record->store != store_) {   // it works for a file that has been set aside
    lane.of_another_file = true;
    lane.record = std::move(view.record);
    send_away(lane);
    lanes_.insert_or_assign(lane.state.number, std::move(lane));
    return;
  }
  lane.state.job = view.record->job.load();
  lane.state.leaving = view.record->yield.load() != 0;
  if (const std::optional<model::Job> job = job_of(ports_.jobs, lane.state.job)) {
    lane.state.request_class = job->request_class;
    lane.state.priority = job->terms.priority;
    lane.state.gpus = job->gpus;
    learn_class(*job);
  }
  lane.record = std::move(view.record);
  lanes_.insert_or_assign(lane.state.number, std::move(lane));
}

// What dead lanes have left to us, and nobody asks for.
void Runner::bury_others() {
  std::vector<pid_t> asked_for = orphans_.commands();
  for (const auto& [number, lane] : lanes_) asked_for.push_back(lane.child);
  ports_.children.bury_others(asked_for);
}

Runner::LaneLeft Runner::left_by(const model::HowEnded& how) {
  if (how.signal == static_cast<int>(model::Signal::terminate)) return LaneLeft::told_to_end;   // in the line
  if (!how.exit_code) return LaneLeft::died;
  switch (static_cast<LaneEnd>(*how.exit_code)) {
    case LaneEnd::worked: return LaneLeft::well;
    case LaneEnd::nothing_to_do: return LaneLeft::idle;
    case LaneEnd::no_claim: return LaneLeft::refused;
    case LaneEnd::cannot_start: return LaneLeft::wanting;
    case LaneEnd::no_store: return LaneLeft::storeless;
    case LaneEnd::told_to_end: return LaneLeft::told_to_end;
  }
  return LaneLeft::died;
}

void Runner::look_after() {
  std::vector<std::pair<unsigned, LaneLeft>> ended;
  for (auto& [number, lane] : lanes_) {
    if (!lane.end && lane.child > 0) lane.end = open_pidfd(lane.child);
    if (lane.end && !is_readable(lane.end.get())) continue;
    if (lane.child == 0) ports_.children.bury(lane.adopted);   // ours, from before a set-aside
    const auto how = ports_.children.look(lane.child).ended;
    if (lane.child > 0 && !how) continue;
    ports_.children.bury(lane.child);
    ended.emplace_back(number, how ? left_by(*how) : LaneLeft::well);
  }
  for (const auto& [number, how] : ended) lane_ended(number, how);
  look_at_unknown();
  settle();
  orphans_.look_after();
  bury_others();
  tell_sight();
  rest_jobs();
}

// Nothing waits for a disk that has no room for that; it is tried again, and whoever looks at the queue takes nothing for seen.
void Runner::tell_sight() {
  try {
    ports_.lanes.tell_sight(orphans_.sight());
    untold_sight_.over();
  } catch (const Error& error) {
    untold_sight_.met(error.full(), ports_.say);
  }
}

// Whatever kills lanes before they have their claim (want of memory, a limit) would do so to any number of them at once.
void Runner::lane_ended(unsigned number, LaneLeft how) {
  LaneKnown lane = std::move(lanes_.at(number));
  lanes_.erase(number);
  const std::uint64_t request_class = lane.state.request_class;
  if (how == LaneLeft::refused) back_off(lane, first_back_off);
  if (how == LaneLeft::wanting) {
    ports_.say(lane_ended_text(lane.job(), "it could start nothing for want of processes, memory or descriptors"));
    back_off(lane, first_pause_of_want);
  }
  if (how != LaneLeft::idle) idle_lanes_.erase(lane.job());
  else if (++idle_lanes_[lane.job()] > idle_put_up_with) back_off(lane, first_pause_of_idle);
  if (how == LaneLeft::storeless) full_.met("no lane can begin anything: the queue cannot be written", ports_.say);
  if (how == LaneLeft::told_to_end) starts_again_ = ports_.clock.steady() + after_a_told_lane;
  const bool claimed = lane.record && lane.record->claimed.load() != 0;
  if (how == LaneLeft::died && !claimed && ++back_offs_[request_class].deaths > deaths_put_up_with)
    back_off(lane, first_pause_after_deaths);
  unsettled_.insert_or_assign(number, record_of(lane));
  lanes_left_ = true;
}

// Several lanes that meet the same at once are one reason for a pause.
void Runner::back_off(const LaneKnown& lane, Seconds shortest) {
  BackOff& back_off = back_offs_[lane.state.request_class];
  if (ports_.clock.steady() < back_off.until) return;
  back_off.pause = std::clamp(back_off.pause * 2, shortest, longest_back_off);
  back_off.until = ports_.clock.steady() + back_off.pause;
  ports_.say(put_off_text(lane.job(), ports_.clock.wall() + back_off.pause));
}

// A dead lane is forgotten when all its tasks have been taken up; a store that cannot be read is asked again.
void Runner::settle() {
  if (unsettled_.empty()) return;
  for (const model::Task& task : ports_.jobs.running()) {
    const auto found = unsettled_.find(static_cast<unsigned>(task.lane));
    if (found != unsettled_.end() && !orphans_.contains(task)) orphans_.take_up(task, found->second);
  }
  unsettled_.clear();
}

// Of a job whose lanes have all ended (held, paused, drained) nothing begins, and a loss of power makes none of it lost.
void Runner::rest_jobs() {
  if (!lanes_left_) return;
  std::vector<model::JobId> worked_for;
  for (const auto& [number, lane] : lanes_) worked_for.push_back(lane.job());
  ports_.jobs.go_no_further(worked_for);
  lanes_left_ = false;
}

void Runner::learn_class(const model::Job& job) {
  if (job.gpus == 0 || classes_.contains(job.request_class)) return;
  std::set<std::string>& units = classes_[job.request_class];
  try {
    Site& site = ports_.site();
    site.observer.look(site.patience);
    for (const std::string& key : usable_keys(site, ports_.jobs.spec(job.id).request)) units.insert(key);
    site.observer.rest();
  } catch (const Error& error) {
    ports_.say(fmt::format("job {}: {}", job.id, error.full()));   // its lane will meet the same, and back off
  }
}

bool Runner::overlap(std::uint64_t one, std::uint64_t other) {
  if (one == other) return true;
  const auto &first = classes_[one], &second = classes_[other];
  return std::ranges::any_of(first, [&](const std::string& key) { return second.contains(key); });
}

// The lowest number that belongs to no task that has to be explained yet, and whose files can be used.
port::LaneSeat Runner::free_seat(model::JobId job) {
  std::map<unsigned, std::string> unusable;
  for (unsigned number = 0;; ++number) {
    if (lanes_.contains(number) || unsettled_.contains(number) || orphans_.have_lane(number) || unknown_.contains(number))
      continue;
    try {
      std::optional<port::LaneSeat> seat = ports_.lanes.take(number, job);
      if (!seat) continue;
      for (const auto& [other, problem] : unusable) leave_alone(other, problem);
      return std::move(*seat);
    } catch (const Error& error) {
      if (!may_be_of_one_file(error.sys_errno()) || unusable.size() == most_unusable) throw;
      unusable.emplace(number, error.full());
    }
  }
}

void Runner::leave_alone(unsigned number, const std::string& problem) {
  ports_.say(fmt::format("lane {}: {}; it is left alone until that is mended", number, problem));
  unknown_.insert(number);
}

void Runner::give_way(unsigned number) { send_away(lanes_.at(number)); }

void Runner::send_away(LaneKnown& lane) {
  lane.state.leaving = true;
  if (lane.record && !lane.record.write(lane.record->yield, 1u)) return;   // no room: in the next look
  if (lane.mail) poke(lane.mail.get());
}

// Whoever has stored what is asked of a task tells its lane; it may have been killed before, or could not: its call failed, or
// somebody has removed the lane's files.
void Runner::tell_lanes() {
  if (!untold_) return;
  for (const model::Task& task : ports_.jobs.running()) {
    const auto found = lanes_.find(static_cast<unsigned>(task.lane));
    if (found == lanes_.end() || !found->second.record || !found->second.mail) continue;
    const model::LaneBay* const bay = bay_of(task, &*found->second.record);
    const bool is_paused = bay && model::is_of_paused(bay->limit_clock);
    if (task.cancel_asked || task.paused != is_paused) poke(found->second.mail.get());
  }
  untold_ = false;
}

void Runner::plan() {
  const WallTime now = ports_.clock.wall();
  const SteadyTime steady = ports_.clock.steady();
  std::vector<model::Job> candidates = ports_.jobs.candidates(now, options_.cpu_lanes + 1);
  anything_to_do_ = !candidates.empty();
  const std::optional<WallTime> due = ports_.jobs.next_due(now);
  alarm_.set(due);
  anything_to_do_ = anything_to_do_ || due.has_value();
  std::erase_if(candidates, [&](const model::Job& job) {
    const auto found = back_offs_.find(job.request_class);
    return found != back_offs_.end() && steady < found->second.until;
  });
  if ((full_.is_on() && steady < full_.again()) || steady < starts_again_) candidates.clear();
  for (const model::Job& job : candidates) learn_class(job);
  std::vector<plan::LaneState> states;
  for (auto& [number, lane] : lanes_) {
    if (lane.of_another_file) continue;
    if (lane.state.leaving && lane.record && lane.record->yield.load() == 0) send_away(lane);
    if (lane.record) {
      lane.state.passed_over = model::is_passed_over(*lane.record);
      const bool had_claim = std::exchange(lane.state.claimed, lane.record->claimed.load() != 0);
      lane.state.job = lane.record->job.load();
      if (lane.state.claimed && !had_claim) {
        back_offs_.erase(lane.state.request_class);
        full_.over();
      }
    }
    states.push_back(lane.state);
  }
  const plan::LanePlan plan = plan::plan_lanes(candidates, states, options_.cpu_lanes,
                                               [this](std::uint64_t one, std::uint64_t other) { return overlap(one, other); });
  for (unsigned number : plan.give_way) give_way(number);
  for (model::JobId id : plan.start)
    for (const model::Job& job : candidates)
      if (job.id == id) start(job);
}

// The store is put away first: no connection may be shared with the lane.
void Runner::start(const model::Job& job) {
  LaneKnown lane;
  port::LaneSeat seat = free_seat(job.id);
  const unsigned number = seat.number;
  if (!seat.record.write(seat.record->store, store_))
    throw Error(ErrorCode::unavailable, "cannot write a lane's record").because(errno);
  port::LaneView view = ports_.lanes.look_at(number);
  lane.record = std::move(view.record);
  lane.mail = std::move(view.mail);
  lane.state = plan::waiting_lane(number, job);
  if (job.gpus > 0) ports_.site().store.about();   // opened once, not in every lane
  ports_.jobs.rest();
  lane.child = ports_.lanes.fork(std::move(seat), seat_, [this, &job](port::LaneSeat& ours) {
    return static_cast<int>(run_lane(ports_, ours, job));
  });
  lane.end = open_pidfd(lane.child);
  lanes_.insert_or_assign(number, std::move(lane));
}

std::optional<SteadyTime> Runner::next_look() const {
  std::optional<SteadyTime> next;
  const auto consider = [&](SteadyTime time) { if (!next || time < *next) next = time; };
  for (const auto& [request_class, back_off] : back_offs_)
    if (back_off.until > ports_.clock.steady()) consider(back_off.until);
  if (trouble_.is_on()) consider(trouble_.again());
  if (full_.is_on() && full_.again() > ports_.clock.steady()) consider(full_.again());
  if (starts_again_ > ports_.clock.steady()) consider(starts_again_);
  if (untold_sight_.is_on()) consider(untold_sight_.again());
  if (!seat_.removals || !unknown_.empty()) consider(ports_.clock.steady() + between_looks);
  for (const auto& [number, lane] : lanes_)
    if (!lane.end) consider(ports_.clock.steady() + between_looks_at_a_child);
  if (const auto time = orphans_.next_look()) {   // in trouble, too: what a full disk cannot be told is ended all the same
    const SteadyTime soonest = ports_.clock.steady() + between_looks_in_trouble;
    consider(trouble_.is_on() ? std::max(*time, soonest) : *time);
  }
  return next;
}

// In trouble nobody may have looked at what the alarm and the ends of orphans tell of: they would tell of it all the time.
void Runner::sleep(std::optional<SteadyTime> deadline) {
  std::vector<int> watched{seat_.wake.get(), seat_.removals.get()};
  for (const auto& [number, lane] : lanes_) watched.push_back(lane.end.get());
  if (!trouble_.is_on()) {
    watched.push_back(alarm_.fd());
    std::ranges::copy(orphans_.ends(), std::back_inserter(watched));
  }
  (void)wait_for(watched, deadline, ports_.clock.steady());
  const Poked poked = pokes_of(seat_.wake.get());
  untold_ = untold_ || poked.at_all;
  if (poked.at_all) full_.try_now();             // who tells us something has as a rule written it to the store
  asked_to_leave_ = asked_to_leave_ || poked.to_leave;
  if (seat_.removals) thole::drain(seat_.removals.get());
}

// The store may have no room for what we have to tell it, or the machine none for another process: we say so and try again
// later, with all that is known kept.
void Runner::pass() {
  try {
    if (ports_.jobs.replaced()) return;
    keeps_seat_ = ports_.lanes.keep(seat_);
    if (!keeps_seat_) return;
    look_after();
    tell_lanes();
    plan();
    if (trouble_.is_on()) ports_.say(std::string(runner_goes_on));
    trouble_.over();
  } catch (const port::NewerFile&) {
    throw;
  } catch (const Error& error) {
    trouble_.met(runner_kept_text(error.full()), ports_.say);
  }
}

Runner::Left Runner::run() {
  thole::drain(seat_.wake.get());                // what the one before was told: all there is to do is in the store
  adopt();
  SteadyTime busy_until = ports_.clock.steady();
  for (;;) {
    pass();
    if (!keeps_seat_) return Left::well;         // somebody has removed the lock's file, and another runner begun
    if (ports_.jobs.replaced()) {                // by whoever has set it aside, or removed it
      for (const auto& [number, lane] : lanes_) give_way(number);
      ports_.say("the queue's file was set aside or removed; what runs goes on to its end");
      return Left::well;
    }
    const bool sees_all = !orphans_.any_is_unseen();
    if (asked_to_leave_ && !sees_all && ports_.lanes.is_awaited()) {
      ports_.say("another runner is started that sees what this one does not; its lanes go on");
      return Left::relieved;
    }
    asked_to_leave_ = false;
    const SteadyTime now = ports_.clock.steady();
    std::optional<SteadyTime> deadline = next_look();
    if (!idle() || trouble_.is_on()) {
      busy_until = now;
    } else {
      const SteadyTime leave_at = busy_until + options_.grace;
      if (now >= leave_at) return sees_all ? Left::well : Left::unseeing;
      deadline = deadline ? std::min(*deadline, leave_at) : leave_at;
    }
    sleep(deadline);
  }
}

}  // namespace

// Who stirs after we have left the seat starts another runner;
// who did before has his work in the store, where it is looked for now.
void run_runner(const QueuePorts& ports, port::WallAlarm& alarm, const RunnerOptions& options) try {
  if (options.relieves && !ports.lanes.relieve()) return;
  for (;;) {
    std::optional<port::RunnerSeat> seat = ports.lanes.sit();
    if (!seat) return;
    ask_anew(ports.door, ports.clock.wall(), ports.say);
    const Runner::Left left = Runner(ports, alarm, options, std::move(*seat)).run();
    if (left == Runner::Left::relieved) return;
    if (ports.jobs.replaced()) {
      if (ports.jobs.renew()) continue;
      return;                                    // whoever makes a new one starts a runner
    }
    const WallTime now = ports.clock.wall();
    for (model::JobId job : ports.jobs.prune(options.keep, now)) ports.door.forget_logs(job);
    settle_code(ports.jobs, ports.door);
    const bool more = left == Runner::Left::unseeing ? has_queued(ports.jobs, now) : has_work(ports.jobs, now);
    ports.jobs.rest();
    if (!more) return;
  }
} catch (const port::NewerFile& error) {
  ports.say(error.full() + "; its own runner goes on with what runs and waits");
}

}  // namespace thole::app
