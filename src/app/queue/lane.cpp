#include "app/queue/lane.hpp"

#include <algorithm>
#include <utility>

#include "app/queue/going_on.hpp"
#include "app/queue/lane_claim.hpp"
#include "app/queue/lane_place.hpp"
#include "app/queue/notify.hpp"
#include "app/queue/put_off.hpp"
#include "app/queue/task_clock.hpp"
#include "app/queue/task_end.hpp"
#include "app/queue/task_text.hpp"
#include "base/error.hpp"
#include "base/printable_lines.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "plan/job/fate.hpp"
#include "plan/job/lanes.hpp"
#include "plan/job/sweep.hpp"

namespace thole::app {

namespace {

constexpr std::size_t tail_for_signs = 64 * 1024;
constexpr std::uint64_t default_log_limit_mib = 1024;
constexpr Millis first_retry{500}, longest_retry{30'000};   // of a write to a store that has no room
constexpr Millis keeps_unused_gpus{4'000};        // as long as such a pause is no longer
constexpr Millis accounts_patience{2'000};       // a driver that hangs must not keep a lane

HowItEnded how_of(const port::TaskOver& over) {
  const unsigned flags = (over.ended.core ? model::how_core : 0) | (over.ended.time_limit ? model::how_time_limit : 0) |
                         (over.cancelled ? model::how_cancelled : 0) | (over.taken_down ? model::how_taken_down : 0);
  return {over.ended.exit_code.value_or(-1), over.ended.signal.value_or(-1), flags, over.peak_memory_kib.value_or(0)};
}

class Lane {
 public:
  Lane(const QueuePorts& ports, port::LaneSeat& seat)
      : ports_(ports),
        seat_(seat),
        notes_(seat.record),
        site_(ports.site()),
        going_on_({ports.jobs, ports.door, ports.clock}, ports.say),
        claim_(site_) {}

  LaneEnd run(const model::Job& first);

 private:
  // A task in one of our places.
  struct Running {
    port::TakenTask task;
    port::LogUse log;
    WallTime started{};
    std::optional<Millis> time{};                // its limit
    TaskClock clock{};                           // by which that goes
  };

  std::optional<model::Job> job_for_claim(const model::Job& first);
  bool claim(model::JobId first);
  std::optional<model::Job> best_job(std::uint64_t request_class);
  void prepare(const model::Job& job);
  void turn(bool take);
  void drop_ends();
  void let_go();
  void begin(const port::TakenTask& taken);
  void give_back(const port::TakenTask& taken);
  void leave(const std::string& why);
  std::optional<WallTime> known_end() const;
  void declare_end();
  bool is_ending() const;
  void extend(WallTime until);
  void obey_door();
  void pause(unsigned number, Running& running, bool paused);
  void say_rung(unsigned place, unsigned rungs, bool time_limit);
  void say_command_end(const port::TaskOver& end);
  void cannot_pause(const Running& running);
  void look_at_pauses();
  void could_not_begin(Running& running, const Error& error);
  port::ProcessSpec spec_for(const Running& running, std::vector<std::string> argv);
  std::string header_for(const Running& running, const std::vector<std::string>& argv) const;
  void over(const port::TaskOver& over);
  std::optional<std::uint64_t> peak_gpu_mib(const Running& running, WallTime ended);
  void read_orders();
  bool somebody_waits();
  bool may_go_on();
  bool has_free_place() const;
  bool is_told_to_end();
  void wait_for_word_of_the_end();
  bool look_for_runner();
  void leave_to_runner();
  void tell_runner();
  void wait();
  std::optional<port::TakeWish> wish();
  template <class Work> void carefully(Work work);

  const QueuePorts& ports_;
  port::LaneSeat& seat_;
  LaneNotes notes_;
  Site& site_;
  GoingOn going_on_;
  LaneClaim claim_;
  model::JobSpec spec_;
  model::JobId job_ = 0;
  HashKey secret_;                               // of the marks of its tasks
  bool alone_ = true;
  std::optional<Binding> binding_;
  std::optional<Error> cannot_bind_;
  plan::Variables variables_;
  std::vector<std::string> gpu_names_, gpu_keys_;
  bool one_task_at_a_time_ = false;              // on these GPUs, as long as we have them
  std::unique_ptr<port::TaskKeeper> keeper_;
  bool wants_ = false;                           // what a process needs
  bool leaving_ = false;                         // it takes no more tasks
  bool set_aside_ = false;                       // the file our job is in: nobody can be told what becomes of it
  bool newer_ = false;                           // that file is a newer thole's: it finds the ends in the record
  std::map<unsigned, Running> running_;          // by place
  std::vector<port::TaskEnd> ends_;              // not yet in the store
  std::optional<SteadyTime> retry_at_;           // of a turn that the store had no room for
  Millis retry_pause_ = first_retry;
  std::optional<SteadyTime> trim_at_;
};

// For what a lane can do without: its tasks must not die of it.
template <class Work>
void Lane::carefully(Work work) {
  try {
    work();
  } catch (const Error& error) {
    ports_.say(fmt::format("job {}: {}", job_, error.full()));
  }
}

// False when the runner has called us back.
bool Lane::claim(model::JobId first) {
  spec_ = ports_.jobs.spec(first);
  model::Request request = spec_.request;
  request.leave = std::max(request.leave, spec_.leave);
  request.wait.reset();                          // a job waits as long as it takes
  AcquireOptions options;
  options.command = printable(join(spec_.argv, " "), 200);
  options.enforced = request.time.has_value();
  options.awaits_driver = false;                 // the runner starts lanes again, with growing pauses, and says why
  options.cancel = {seat_.mail.get()};
  options.caution = ports_.say;
  options.waiting = [this](const Standing& standing) {
    if (notes_.passed_over(standing.wait.passed_over)) carefully([&] { ports_.door.stir(); });   // who is to go past us
  };
  while (seat_.record->yield.load() == 0) {
    try {
      Acquired acquired = acquire(site_, request, options);
      std::optional<WallTime> until;
      if (request.time) until = site_.clock.wall() + *request.time;
      claim_.hold(std::move(acquired), until, ports_.make_door, [this] { return is_ending(); }, ports_.say);
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

// All that is the same for every task of the job.
void Lane::prepare(const model::Job& job) {
  job_ = job.id;
  secret_ = ports_.jobs.secret();
  notes_.job(job.id);
  alone_ = job.tasks == 1;
  const Acquired& acquired = claim_.acquired();
  variables_ = variables(site_, acquired, spec_.request, plan::parse_ids(spec_.ids).value_or(plan::Ids::automatic));
  try {
    binding_ = binding_for(site_, ports_.bind, spec_.bind, acquired, 1);
  } catch (const Error& error) {
    cannot_bind_ = error;                        // then no task of it can begin
  }
  for (std::size_t index : acquired.chosen) {
    const model::Unit& unit = acquired.units[index];
    gpu_names_.push_back(fmt::format("{} ({})", unit.label, unit.model_of(site_.observer.snapshot().machine)));
    gpu_keys_.push_back(unit.key);
  }
  const bool whole =
      std::ranges::none_of(acquired.chosen, [&](std::size_t i) { return acquired.units[i].instance.has_value(); });
  one_task_at_a_time_ = whole && spec_.per_gpu <= 1 && !spec_.request.share && !acquired.reused && !acquired.inner_store;
  site_.observer.rest();
}

// Free places, with the logs their tasks will write to.
std::optional<port::TakeWish> Lane::wish() {
  port::TakeWish wish;
  wish.job = job_;
  wish.lane = seat_.number;
  wish.gpus = gpu_keys_;
  wish.places.clear();
  const unsigned places = std::clamp(spec_.per_gpu, 1u, model::lane_places);
  for (unsigned number = 0; number < places; ++number) {
    if (running_.contains(number)) continue;
    port::LogUse use{job_, alone_, seat_.number, number, spec_.log_limit_mib.value_or(default_log_limit_mib)};
    port::TaskLogs::Spot spot = ports_.logs.next(use);
    if (!spot.problem.empty()) ports_.say(fmt::format("job {}: no log: {}", job_, spot.problem));
    wish.places.push_back({number, std::move(spot.name), spot.offset});
  }
  if (wish.places.empty()) return std::nullopt;
  return wish;
}

// What ended goes into the store and what is next comes out of it, in one transaction. A store without room is asked again
// later: until then the ends stand in the record.
void Lane::turn(bool take) {
  if (set_aside_) return drop_ends();
  if (newer_) return ends_.clear();              // they stand in the record
  const WallTime now = site_.clock.wall();
  std::optional<port::TakeWish> wanted;
  if (take) wanted = wish();
  if (ends_.empty() && !wanted) return;
  port::Turn turn;
  try {
    turn = ports_.jobs.turn(ends_, wanted, now);
  } catch (const port::NewerFile& error) {
    newer_ = true;
    leave(error.full() + "; this lane ends after its present tasks, and how they ended is left to the newer one");
    ends_.clear();
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
    for (unsigned place = 0; place < model::lane_places; ++place)   // a log that has filled the disk may be removed
      if (!running_.contains(place)) ports_.logs.let_go(place);
    if (running_.empty() && retry_pause_ > keeps_unused_gpus) let_go();
    return;
  }
  retry_at_.reset();
  retry_pause_ = first_retry;
  const bool others_concerned =
      !turn.ended.empty() || std::ranges::any_of(ends_, [](const auto& end) { return end.ready.has_value(); });
  ends_.clear();
  // A task begins only where the next runner would find what we note of it.
  const bool told_to_end = is_told_to_end();
  const bool stands = turn.taken.empty() || (!told_to_end && ports_.lanes.stands(seat_));
  if (!stands && !told_to_end) leave("somebody has removed this lane's files; it ends after its present tasks");
  for (const port::TakenTask& taken : turn.taken) stands ? begin(taken) : give_back(taken);
  const bool began = !running_.empty() || std::ranges::any_of(ends_, [](const auto& end) { return !end.unstarted; });
  const bool first = began && notes_.claimed();
  carefully([&] {
    for (model::JobId job : turn.ended) notify(ports_, job);
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
  for (const port::TaskEnd& end : ends_)
    ports_.say(fmt::format("job {}.{} of the queue that was set aside: {}", end.job, end.index, model::to_string(end.state)));
  ends_.clear();
  retry_at_.reset();
}

void Lane::begin(const port::TakenTask& taken) {
  Running running;
  running.task = taken;
  running.log = {job_, alone_, seat_.number, taken.place, spec_.log_limit_mib.value_or(default_log_limit_mib)};
  running.started = site_.clock.wall();
  running.time = taken.time;
  running.clock = TaskClock(site_.clock.steady());
  const bool noted = notes_.taken(taken, running.started);
  try {
    if (cannot_bind_) throw Error(*cannot_bind_);
    std::vector<std::string> argv = plan::task_command(spec_, taken.job, taken.index, taken.cells);
    port::ProcessSpec spec = spec_for(running, std::move(argv));
    spec.output = ports_.logs.begin(running.log, header_for(running, spec.argv));
    if (!noted) throw port::NotNoted(notes_.refusal());
    model::ProcessIdentity command;
    spec.identity = &command;
    port::TaskRun run{taken.place, taken.time, spec_.patience, spec_.linger,
                      [this](const auto& which) { ports_.say(fmt::format("job {}: {}", job_, out_of_reach_text(which))); },
                      [this, place = taken.place](unsigned rungs, bool limit) { say_rung(place, rungs, limit); },
                      [this](const port::TaskOver& end) { say_command_end(end); }};
    const pid_t pid = keeper_->start(spec, run);
    notes_.began(taken.place, pid, command);
    running_.emplace(taken.place, std::move(running));
    declare_end();
  } catch (const Error& error) {
    if (!is_want(error.sys_errno()) && !dynamic_cast<const port::NotNoted*>(&error)) return could_not_begin(running, error);
    notes_.not_begun(taken.place);               // whatever was forked for it has ended without an execve
    wants_ = true;
    leave("nothing can be started now: " + error.full());
    ports_.logs.end(running.log, fmt::format("# not started, queued again: {}\n", in_one_line(error.full())));
    give_back(taken);
  }
}

// Its command has never run, and will in another lane.
void Lane::give_back(const port::TakenTask& taken) { ends_.push_back(unstarted(taken, site_.clock.wall())); }

void Lane::leave(const std::string& why) {
  if (!std::exchange(leaving_, true)) ports_.say(fmt::format("job {}: {}", job_, why));
}

// Of all that runs: as long as some of it is paused, or has no limit, nobody knows it.
std::optional<WallTime> Lane::known_end() const {
  std::optional<WallTime> last;
  for (const auto& [number, running] : running_) {
    if (!running.time || running.clock.paused()) return std::nullopt;
    const WallTime end = running.started + *running.time + running.clock.stood();
    last = last ? std::max(*last, end) : end;
  }
  return last;
}

void Lane::declare_end() {
  carefully([&] { claim_.ends_at(known_end()); });
}

bool Lane::is_ending() const {
  const auto ends = [&](const auto& one) { return keeper_->stands(one.first) == port::TaskStands::ending; };
  return !running_.empty() && std::ranges::all_of(running_, ends);
}

// What runs now ends then; what begins after it has the limit of the job.
void Lane::extend(WallTime until) {
  const SteadyTime now = site_.clock.steady();
  const Millis left = until - site_.clock.wall();
  for (auto& [number, running] : running_) {
    if (keeper_->stands(number) == port::TaskStands::ending) continue;
    keeper_->tell(number, port::ExtendTask{now + left});
    const Millis whole = running.clock.ran(now) + left;
    if (running.time) running.clock.extend(whole - *running.time);
    else running.time = whole;
    notes_.limit_clock(number, running.clock.for_record(now));
  }
  declare_end();
}

// Who gives its GPUs back ends what runs on them; the rest of the job stands in line again.
void Lane::obey_door() {
  const port::Order order = claim_.serve();
  if (order.until) extend(*order.until);
  if (!order.end) return;
  leave("its claim is given back (thole release): what runs is cancelled, and the rest of the job waits in line again");
  for (const auto& [number, running] : running_) keeper_->tell(number, port::StopTask{});
}

// What is being ended is not paused, nor is what a paused command has left any more: then the store is told so.
void Lane::pause(unsigned number, Running& running, bool paused) {
  keeper_->tell(number, port::PauseTask{paused});
  if ((keeper_->stands(number) == port::TaskStands::paused) != paused) return cannot_pause(running);
  if (running.clock.paused() == paused) return;
  const SteadyTime now = site_.clock.steady();
  running.clock.pause(paused, now);
  notes_.limit_clock(number, running.clock.for_record(now));
  declare_end();
}

void Lane::say_rung(unsigned place, unsigned rungs, bool time_limit) {
  const auto found = running_.find(place);
  if (found == running_.end()) return;
  const port::TakenTask& task = found->second.task;
  notes_.told_to_end(place, task_mark(secret_, task.job, task.index, task.runs), rungs, time_limit, site_.clock.steady());
}

void Lane::say_command_end(const port::TaskOver& end) { notes_.command_ended(end.place, how_of(end), site_.clock.wall()); }

void Lane::cannot_pause(const Running& running) {
  const port::Selection it{running.task.job, running.task.job, std::pair(running.task.index, running.task.index)};
  carefully([&] { (void)ports_.jobs.alter({&it, 1}, port::Verb::proceed, site_.clock.wall()); });
}

void Lane::look_at_pauses() {
  for (auto& [number, running] : running_) {
    if (!running.clock.paused() || keeper_->stands(number) == port::TaskStands::paused) continue;
    cannot_pause(running);
    pause(number, running, false);
  }
}

// No such command, no such directory …: an end like any other, with the statuses that env(1) would give.
void Lane::could_not_begin(Running& running, const Error& error) {
  const int exit_code = exit_status(error.code());
  const WallTime now = site_.clock.wall();
  notes_.ended(running.task.place, {.exit_code = exit_code, .flags = model::how_no_start}, now);
  const plan::TaskEnding ending{.exit_code = exit_code};
  port::TaskEnd end = judged(running.task, ending, spec_.retry, now);
  end.reason = in_one_line(error.full());
  end.log_length = ports_.logs.end(running.log, fmt::format("# not started: {}\n", end.reason));
  ends_.push_back(std::move(end));
}

port::ProcessSpec Lane::spec_for(const Running& running, std::vector<std::string> argv) {
  port::ProcessSpec spec = spec_with(claim_.acquired(), variables_, ports_.carry);
  spec.argv = std::move(argv);
  spec.base = &spec_.environment;
  spec.set["THOLE_TASK"] = task_mark(secret_, running.task.job, running.task.index, running.task.runs) +
                           port::word_of_lane(seat_.record->number) + ports_.queue;
  spec.set["THOLE_JOB"] = std::to_string(running.task.job);
  spec.set["THOLE_TASK_INDEX"] = std::to_string(running.task.index);
  spec.set["THOLE_RUN"] = std::to_string(running.task.tries);
  spec.cwd = spec_.directory;
  spec.own_group = true;
  spec.mask = spec_.umask;
  spec.limits = limits_of(spec_.limits);
  spec.reached = notes_.reached(running.task.place);
  spec.keep.push_back(seat_.life.get());
  if (binding_) put_into(spec, *binding_, 0, nullptr);
  return spec;
}

std::string Lane::header_for(const Running& running, const std::vector<std::string>& argv) const {
  TaskHeader header;
  header.name = alone_ ? std::to_string(job_) : fmt::format("{}.{}", job_, running.task.index);
  header.runs = running.task.runs;
  header.argv = argv;
  header.directory = spec_.directory;
  header.host = ports_.host;
  header.gpus = gpu_names_;
  // What was asked of this host: a simulated machine's plan has others, too.
  if (binding_ && !binding_->effects.empty() && binding_->effects.front().binding.cpus)
    header.cpus = binding_->effects.front().binding.cpus->to_string();
  header.started = running.started;
  return header_text(header);
}

void Lane::over(const port::TaskOver& over) {
  auto found = running_.find(over.place);
  if (found == running_.end()) return;
  const Running& running = found->second;
  const WallTime now = site_.clock.wall();
  notes_.ended(over.place, how_of(over), now);
  const std::optional<std::uint64_t> peak_gpu = peak_gpu_mib(running, now);
  if (peak_gpu) notes_.peak_gpu(over.place, *peak_gpu);

  plan::TaskEnding ending{.exit_code = over.ended.exit_code,
                          .signal = over.ended.signal,
                          .time_limit = over.ended.time_limit,
                          .cancelled = over.cancelled,
                          .taken_down = over.taken_down};
  if (over.ended.exit_code != 0)
    ending.gpu_out_of_memory = plan::says_gpu_out_of_memory(ports_.logs.tail(running.log, tail_for_signs));
  port::TaskEnd end = judged(running.task, ending, spec_.retry, now);
  if (over.peak_memory_kib) end.peak_memory_mib = mib_of_kib(*over.peak_memory_kib);
  end.peak_gpu_memory_mib = peak_gpu;
  const Millis ran = std::max(Millis{0}, now - running.started);
  const std::string next = end.state != model::TaskState::queued ? ""
                           : end.ready ? "runs again at " + format_iso(*end.ready) : "runs again";
  const std::string own_line = ports_.logs.tail(running.log, 1).ends_with('\n') ? "" : "\n";
  end.log_length = ports_.logs.end(running.log, own_line + footer_text({over, ran, now, peak_gpu, end.reason, next}));
  ends_.push_back(std::move(end));
  running_.erase(found);
  if (over.survived) leave("what a task has left behind cannot be ended: nothing more is started on its GPUs");
}

// What its largest process had on one GPU. With our GPUs to itself, all that has started on them since it began is its own,
// also what its children have started, whatever their pids look like from here.
std::optional<std::uint64_t> Lane::peak_gpu_mib(const Running& running, WallTime ended) {
  if (!one_task_at_a_time_ || gpu_keys_.empty()) return std::nullopt;
  return site_.observer.peak_memory_mib(gpu_keys_, running.started, ended, accounts_patience);
}

// The store says what people asked of our tasks.
void Lane::read_orders() {
  for (auto& [number, running] : running_) {
    const std::optional<model::Task> task = ports_.jobs.task(running.task.job, running.task.index);
    if (!task || task->runs != running.task.runs) continue;
    if (task->cancel_asked) keeper_->tell(number, port::StopTask{});
    if (task->paused != running.clock.paused()) pause(number, running, task->paused);
  }
}

// Also who would have to wait for the next task longer than it was promised.
bool Lane::somebody_waits() {
  bool others = false;
  carefully([&] {
    others = claim_.is_wanted() ||
             (spec_.request.time && !claim_.may_end_at(site_.clock.wall() + *spec_.request.time));
  });
  return others;
}

// As the machine is when it goes down: what it begins then comes to nothing.
bool Lane::is_told_to_end() {
  if (!keeper_->told_to_end()) return false;
  leave("the machine, or somebody, ends its lane (SIGTERM): it begins nothing more, and goes when its present tasks have "
        "ended");
  return true;
}

// The runner that started us has gone. Where everything is ended our own signal comes in that time, and nothing has begun.
void Lane::wait_for_word_of_the_end() {
  const SteadyTime until = ports_.clock.steady() + plan::signals_take;
  while (!is_told_to_end() && !ports_.door.runner_end() && ports_.clock.steady() < until) keeper_->wait({}, until);
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
  while (look_for_runner() && going_on_.is_in_doubt()) keeper_->wait({}, going_on_.next_look());
}

void Lane::tell_runner() {
  if (!is_told_to_end()) ports_.door.stir();     // which starts one where none is
}

void Lane::wait() {
  notes_.write_again([this](const std::string& text) { ports_.say(fmt::format("job {}: {}", job_, text)); });
  std::vector<int> also{seat_.mail.get()};
  if (ports_.logs.growth() >= 0) also.push_back(ports_.logs.growth());
  if (claim_.door_fd() >= 0) also.push_back(claim_.door_fd());
  std::optional<SteadyTime> deadline = retry_at_;
  const auto consider = [&deadline](SteadyTime time) { deadline = deadline ? std::min(*deadline, time) : time; };
  if (trim_at_) consider(*trim_at_);
  if (notes_.behind()) consider(notes_.next_try());
  if (look_for_runner()) {
    if (going_on_.fd() >= 0) also.push_back(going_on_.fd());
    else consider(going_on_.next_look());
  }
  for (const port::TaskOver& ended : keeper_->wait(also, deadline)) over(ended);
  look_at_pauses();
  if (claim_.is_asked()) carefully([&] { obey_door(); });
  if (thole::drain(seat_.mail.get()) && !set_aside_) {
    if (retry_at_) retry_at_ = site_.clock.steady();   // who told us may have mended the store
    carefully([&] { read_orders(); });
  }
  if (ports_.logs.growth() >= 0) trim_at_ = ports_.logs.trim(site_.clock.steady());
}

bool Lane::has_free_place() const { return running_.size() < std::clamp(spec_.per_gpu, 1u, model::lane_places); }

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
  prepare(*job);
  keeper_ = ports_.keeper();
  wait_for_word_of_the_end();
  bool take = true;                              // until others go first
  for (bool first_turn = true;; first_turn = false) {
    if (!retry_at_) {
      if (take && has_free_place()) take = first_turn ? !is_told_to_end() : may_go_on();
      turn(take);
      if (!ends_.empty() && !retry_at_) continue;   // some could not even begin
    }
    if (retry_at_ && running_.empty() && is_told_to_end() && !notes_.behind()) ends_.clear();   // the record has them
    if (running_.empty() && ends_.empty() && !(newer_ && notes_.behind())) {   // the job has no more that may go now
      leave_to_runner();
      if (is_told_to_end()) return LaneEnd::told_to_end;
      return wants_ ? LaneEnd::cannot_start : retry_at_ ? LaneEnd::no_store : LaneEnd::worked;
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
