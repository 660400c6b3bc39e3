#include "app/queue/lane.hpp"

#include <algorithm>
#include <utility>

#include "app/queue/going_on.hpp"
#include "app/queue/job_names.hpp"
#include "app/queue/lane_claim.hpp"
#include "app/queue/lane_tasks.hpp"
#include "app/queue/notify.hpp"
#include "app/queue/put_off.hpp"
#include "app/queue/task_end.hpp"
#include "app/queue/task_text.hpp"
#include "base/error.hpp"
#include "base/printable_lines.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "plan/job/fate.hpp"
#include "plan/job/lanes.hpp"

namespace thole::app {

namespace {

constexpr Millis first_retry{500}, longest_retry{30'000};   // of a write to a store that has no room
constexpr Millis keeps_unused_gpus{4'000};        // as long as such a pause is no longer

class Lane {
 public:
  Lane(const QueuePorts& ports, port::LaneSeat& seat)
      : ports_(ports),
        seat_(seat),
        site_(ports.site()),
        going_on_({ports.jobs, ports.door, ports.clock}, ports.say),
        claim_(site_),
        tasks_(ports, seat, claim_, [this](const std::string& why) { leave(why); }) {}

  LaneEnd run(const model::Job& first);

 private:
  std::optional<model::Job> job_for_claim(const model::Job& first);
  bool claim(model::JobId first);
  std::optional<model::Job> best_job(std::uint64_t request_class);
  void round(bool take);
  void drop_ends();
  void let_go();
  void leave(const std::string& why);
  void obey_door();
  bool somebody_waits();
  bool next_may_begin();
  bool may_take(std::optional<Seconds> time);
  bool may_begin(const port::TakenTask& taken);
  bool may_go_on();
  bool is_told_to_end();
  void wait_for_word_of_the_end();
  bool look_for_runner();
  void leave_to_runner();
  void tell_runner();
  void wait();
  template <class Work> void carefully(Work work) { app::carefully(ports_, job_, work); }

  const QueuePorts& ports_;
  port::LaneSeat& seat_;
  Site& site_;
  GoingOn going_on_;
  LaneClaim claim_;
  LaneTasks tasks_;
  model::JobSpec spec_;
  model::JobId job_ = 0;
  std::optional<Seconds> asked_for_;             // the time with which the next task may begin
  bool leaving_ = false;                         // it takes no more tasks
  bool set_aside_ = false;                       // the file our job is in: nobody can be told what becomes of it
  bool newer_ = false;                           // that file is a newer thole's: it finds the ends in the record
  std::optional<SteadyTime> retry_at_;           // of a round that the store had no room for
  Millis retry_pause_ = first_retry;
  std::optional<SteadyTime> trim_at_;
};

// False when the runner has called us back.
bool Lane::claim(model::JobId first) {
  spec_ = ports_.jobs.spec(first);
  model::Request request = spec_.request;
  if (request.time) *request.time += spec_.beyond_limit();
  request.leave = std::max(request.leave, spec_.leave);
  request.wait.reset();                          // a job waits as long as it takes
  AcquireOptions options;
  options.command = printable(join(spec_.argv, " "), 200);
  options.enforced = request.time.has_value();
  options.had.emplace();                         // what it names was there when it was submitted
  options.awaits_driver = false;                 // the runner starts lanes again, with growing pauses, and says why
  options.cancel = {seat_.mail.get()};
  options.caution = ports_.say;
  options.waiting = [this](const Standing& standing) {
    if (tasks_.notes().passed_over(standing.wait.passed_over)) carefully([&] { ports_.door.stir(); });   // who is to go past us
  };
  while (seat_.record->yield.load() == 0) {
    try {
      Acquired acquired = acquire(site_, request, options);
      std::optional<WallTime> until;
      if (request.time) until = site_.clock.wall() + *request.time;
      claim_.hold(std::move(acquired), until, {.make = ports_.make_door,
                                               .is_ending = [this] { return tasks_.are_ending(); },
                                               .as_told = [this](WallTime end) { return tasks_.as_told(end); },
                                               .extend = [this](WallTime end) { tasks_.extend(end); },
                                               .caution = ports_.say});
      return seat_.record->yield.load() == 0;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::interrupted) throw;
      thole::drain(seat_.mail.get());
    }
  }
  return false;
}

std::optional<model::Job> Lane::best_job(std::uint64_t request_class) {
  const std::vector<model::Job> first = ports_.jobs.candidates(site_.clock.wall(), 1);
  std::vector<const model::Job*> in_order;
  for (const model::Job& job : first) in_order.push_back(&job);
  plan::put_in_order(in_order);
  const auto best = std::ranges::find(in_order, request_class, &model::Job::request_class);
  return best == in_order.end() ? std::nullopt : std::optional(**best);
}

// What ended goes into the store and what is next comes out of it, in one transaction. A store without room is asked again
// later: until then the ends stand in the record.
void Lane::round(bool take) {
  if (set_aside_) return drop_ends();
  if (newer_) return tasks_.ends().clear();              // they stand in the record
  const WallTime now = site_.clock.wall();
  std::optional<port::TakeWish> wanted;
  if (take) wanted = tasks_.wish();
  if (tasks_.ends().empty() && !wanted) return;
  port::Round round;
  try {
    round = ports_.jobs.round(tasks_.ends(), wanted, now);
  } catch (const port::NewerFile& error) {
    newer_ = true;
    leave(error.full() + "; this lane ends after its present tasks, and how they ended is left to the newer one");
    tasks_.ends().clear();
    return;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unavailable) throw;
    if (ports_.jobs.replaced()) {
      ports_.say(fmt::format("job {}: {}", job_, error.full()));
      set_aside_ = true;
      drop_ends();
      return;
    }
    ports_.say(unstored_text(job_, error.full()));
    retry_at_ = site_.clock.steady() + retry_pause_;
    retry_pause_ = std::min(retry_pause_ * 2, longest_retry);
    tasks_.let_go_logs();
    if (!tasks_.any() && retry_pause_ > keeps_unused_gpus) let_go();
    return;
  }
  retry_at_.reset();
  retry_pause_ = first_retry;
  const bool others_concerned =
      !round.ended.empty() || std::ranges::any_of(tasks_.ends(), [](const auto& end) { return end.ready.has_value(); });
  tasks_.ends().clear();
  // A task begins only where the next runner would find what we note of it.
  const bool told_to_end = is_told_to_end();
  const bool stands = round.taken.empty() || (!told_to_end && ports_.lanes.stands(seat_));
  if (!stands && !told_to_end) leave("somebody has removed this lane's files; it ends after its present tasks");
  for (const port::TakenTask& taken : round.taken)
    stands && may_begin(taken) && tasks_.sees_its_gpus() ? tasks_.begin(taken) : tasks_.give_back(taken);
  const bool began = tasks_.any() || std::ranges::any_of(tasks_.ends(), [](const auto& end) { return !end.unstarted; });
  const bool first = began && tasks_.notes().claimed();
  carefully([&] {
    for (model::JobId job : round.ended) notify(ports_, job);
    if (first || others_concerned) tell_runner();   // the next lane may start, or what waited for this job
  });
}

// Nothing of ours runs, and nobody knows when the ends of our tasks can be written: others have the GPUs meanwhile.
void Lane::let_go() {
  if (!claim_.is_held()) return;
  leave("its claim is given back, and the lane ends once these ends are written");
  claim_.let_go();
}

// Of tasks whose job is in a file that is no longer the queue's: their logs say how they ended.
void Lane::drop_ends() {
  for (const port::TaskEnd& end : tasks_.ends())
    ports_.say(fmt::format("job {}.{} of the queue that was set aside: {}", end.job, end.index, model::to_string(end.state)));
  tasks_.ends().clear();
  retry_at_.reset();
}

void Lane::leave(const std::string& why) {
  if (!std::exchange(leaving_, true)) ports_.say(fmt::format("job {}: {}", job_, why));
}

// Who gives its GPUs back ends what runs on them; the rest of the job stands in line again.
void Lane::obey_door() {
  if (!claim_.serve().end) return;
  leave("its claim is given back (thole release): what runs is cancelled, and the rest of the job waits in line again");
  tasks_.cancel_all();
}

bool Lane::somebody_waits() {
  bool others = false;
  carefully([&] { others = claim_.is_wanted() || !next_may_begin(); });
  return others;
}

// Who let us go first, for the end that we had declared, does not wait for a task longer than that (an edited one).
bool Lane::next_may_begin() {
  if (claim_.acquired().passed.empty()) return true;
  const std::optional<model::Job> job = job_of(ports_.jobs, job_);
  if (!job) return true;
  asked_for_ = job->terms.time;
  return may_take(asked_for_);
}

bool Lane::may_take(std::optional<Seconds> time) {
  return claim_.may_end_at(time ? std::optional(site_.clock.wall() + *time + spec_.beyond_limit()) : std::nullopt);
}

// Its limit may have been edited between that question and the store's answer.
bool Lane::may_begin(const port::TakenTask& taken) {
  if (claim_.acquired().passed.empty() || taken.time == asked_for_) return true;
  bool may = false;
  carefully([&] { may = may_take(taken.time); });
  return may;
}

// As the machine is when it goes down: what it begins then comes to nothing.
bool Lane::is_told_to_end() {
  if (!tasks_.told_to_end()) return false;
  leave("the machine, or somebody, ends its lane (SIGTERM): it begins nothing more, and goes when its present tasks have "
        "ended");
  return true;
}

// The runner that started us has gone. Where everything is ended our own signal comes in that time, and nothing has begun.
void Lane::wait_for_word_of_the_end() {
  const SteadyTime until = ports_.clock.steady() + plan::signals_take;
  while (!is_told_to_end() && !ports_.door.runner_end() && ports_.clock.steady() < until) tasks_.wait({}, until);
}

bool Lane::may_go_on() {
  return !is_told_to_end() && !set_aside_ && !leaving_ && seat_.record->yield.load() == 0 && !somebody_waits();
}

// One that was killed is replaced: else what it was told of a moment before waits for the next command that somebody gives.
// False: its end is nothing to us.
bool Lane::look_for_runner() {
  if (set_aside_ || newer_ || is_told_to_end() || ports_.jobs.replaced()) return false;
  carefully([&] { going_on_.look(); });
  return true;
}

// Before we end: nobody else may be there who would start one.
void Lane::leave_to_runner() {
  while (look_for_runner() && going_on_.is_in_doubt()) tasks_.wait({}, going_on_.next_look());
}

void Lane::tell_runner() {
  if (!is_told_to_end()) ports_.door.stir();     // which starts one where none is
}

void Lane::wait() {
  tasks_.notes().write_again([this](const std::string& text) { ports_.say(fmt::format("job {}: {}", job_, text)); });
  std::vector<int> also{seat_.mail.get()};
  if (ports_.logs.growth() >= 0) also.push_back(ports_.logs.growth());
  if (claim_.door_fd() >= 0) also.push_back(claim_.door_fd());
  std::optional<SteadyTime> deadline = retry_at_;
  const auto consider = [&deadline](SteadyTime time) { deadline = deadline ? std::min(*deadline, time) : time; };
  if (trim_at_) consider(*trim_at_);
  if (tasks_.notes().behind()) consider(tasks_.notes().next_try());
  if (look_for_runner()) {
    if (going_on_.fd() >= 0) also.push_back(going_on_.fd());
    else consider(going_on_.next_look());
  }
  tasks_.wait(also, deadline);
  tasks_.look_at_pauses();
  if (claim_.is_asked()) carefully([&] { obey_door(); });
  if (thole::drain(seat_.mail.get()) && !set_aside_) {
    if (retry_at_) retry_at_ = site_.clock.steady();   // who told us may have mended the store
    carefully([&] { tasks_.read_orders(); });
  }
  if (ports_.logs.growth() >= 0) trim_at_ = ports_.logs.trim(site_.clock.steady());
}

// The job that gets the claim: what is the best of its kind by now. What ended since the runner chose one, and gave these GPUs
// free, may be what a better one waited for.
std::optional<model::Job> Lane::job_for_claim(const model::Job& first) {
  if (!claim(first.id)) return std::nullopt;
  std::optional<model::Job> job = best_job(first.request_class);
  if (job) spec_ = ports_.jobs.spec(job->id);    // also that of `first` may have been edited
  return job;
}

LaneEnd Lane::run(const model::Job& first) {
  const std::optional<model::Job> job = job_for_claim(first);
  if (!job) return LaneEnd::nothing_to_do;
  job_ = job->id;
  tasks_.prepare(*job, spec_);
  wait_for_word_of_the_end();
  bool take = true;                              // until others go first
  for (bool first_round = true;; first_round = false) {
    if (!retry_at_) {
      if (take && tasks_.has_free_bay()) take = first_round ? !is_told_to_end() && next_may_begin() : may_go_on();
      round(take);
      if (!tasks_.ends().empty() && !retry_at_) continue;   // some could not even begin
    }
    const bool behind = tasks_.notes().behind();   // else the record has what is not in the store
    if (retry_at_ && !tasks_.any() && is_told_to_end() && !behind) tasks_.ends().clear();
    if (!tasks_.any() && tasks_.ends().empty() && !(newer_ && behind)) {   // the job has no more that may go now
      leave_to_runner();
      if (is_told_to_end()) return LaneEnd::told_to_end;
      return tasks_.was_in_want() ? LaneEnd::cannot_start : retry_at_ ? LaneEnd::no_store : LaneEnd::worked;
    }
    wait();
    if (retry_at_ && site_.clock.steady() >= *retry_at_) retry_at_.reset();
  }
}

}  // namespace

LaneEnd run_lane(const QueuePorts& ports, port::LaneSeat& seat, const model::Job& first) {
  try {
    return Lane(ports, seat).run(first);
  } catch (const Error& error) {
    ports.say(lane_ended_text(first.id, error.full()));
    return LaneEnd::no_claim;
  }
}

}  // namespace thole::app
