#include "app/queue/lane_notes.hpp"

#include <cerrno>
#include <cstring>

#include "base/machine_clocks.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

std::int64_t ms_of(WallTime time) { return time.time_since_epoch().count(); }

}  // namespace

LaneNotes::LaneNotes(const port::SeenRecord& record) : record_(record), own_(std::make_unique<model::LaneRecord>()) {
  std::memcpy(static_cast<void*>(own_.get()), static_cast<const void*>(record.get()), sizeof *own_);
}

bool LaneNotes::put_bytes(const void* own, std::size_t size) {
  const auto offset = static_cast<const char*>(own) - reinterpret_cast<const char*>(own_.get());
  if (record_.write_bytes(static_cast<std::size_t>(offset), own, size)) return true;
  refusal_ = errno;
  return false;
}

void LaneNotes::written(unsigned bay, bool done) {
  if (done) behind_.erase(bay);
  else behind_.insert(bay);
}

bool LaneNotes::put_job() { return put(own_->job) && put(own_->claimed); }

bool LaneNotes::put_command(unsigned bay) { return put(own_->commands[bay]) && put(own_->command_seals[bay]); }

// The phase last: it says what the rest is.
bool LaneNotes::put_bay(unsigned bay) {
  const model::LaneBay& own = own_->bays[bay];
  return put_bytes(&own.runs, sizeof own - offsetof(model::LaneBay, runs)) && put_command(bay) && put(own.phase);
}

void LaneNotes::job(model::JobId job) {
  own_->job.store(job);
  job_behind_ = !put_job();
}

// What could not be written is written with the next look, which comes by itself.
bool LaneNotes::passed_over(bool others_go_past) {
  const std::int32_t noted = others_go_past ? own_->pid : 0, before = own_->passed_over.exchange(noted);
  if (before == noted) return false;
  if (put(own_->passed_over)) return true;
  own_->passed_over.store(before);
  return false;
}

bool LaneNotes::claimed() {
  const bool first = own_->claimed.exchange(1) == 0;
  if (first) job_behind_ = !put_job();
  return first;
}

// In one write, with the phase before the rest: of what was there nothing is to be taken for the end of this one.
bool LaneNotes::taken(const port::TakenTask& task, WallTime started) {
  model::LaneBay& bay = own_->bays[task.bay];
  bay.job = task.job;
  bay.task = task.index;
  bay.runs = task.runs;
  bay.pid = bay.limit_clock = 0;
  bay.peak_memory_kib = bay.peak_gpu_mib = 0;
  bay.started_ms = ms_of(started);
  bay.phase.store(model::TaskPhase::taken);
  own_->commands[task.bay] = {};                 // on the disk what is there has another one's seal
  own_->command_seals[task.bay] = 0;
  behind_.erase(task.bay);                       // how the one before ended is in the store
  return put(bay);
}

port::ProcessSpec::Note LaneNotes::reached(unsigned bay) const {
  const model::LaneBay& its = record_->bays[bay];
  return {record_.file().get(), record_.offset_of(&its.phase), model::TaskPhase::reached, record_.offset_of(&its.pid)};
}

void LaneNotes::began(unsigned bay, pid_t pid, const model::ProcessIdentity& command) {
  model::LaneBay& own = own_->bays[bay];
  own.phase.store(model::TaskPhase::reached);    // the child has written that
  own.pid = pid;
  own_->commands[bay] = command;
  own_->command_seals[bay] = model::command_seal(*own_, bay);
  written(bay, put(own.pid) && put_command(bay));
}

void LaneNotes::not_begun(unsigned bay) {
  own_->bays[bay].phase.store(model::TaskPhase::taken);
  written(bay, put(own_->bays[bay].phase));
}

void LaneNotes::limit_clock(unsigned bay, std::int32_t clock) {
  own_->bays[bay].limit_clock = clock;
  written(bay, behind_.contains(bay) ? put_bay(bay) : put(own_->bays[bay].limit_clock));
}

// How many were told last: it says what the rest is.
void LaneNotes::told_to_end(unsigned bay, const std::string& mark, unsigned rungs, bool time_limit, SteadyTime now) {
  const model::LaneBay& its = own_->bays[bay];
  model::EndingOfOrphan& own = own_->endings[bay];
  const bool same = own.job == its.job && own.task == its.task && own.runs == its.runs;
  if (same && own.steps.load() == rungs) return;
  model::put_ending(own, its, mark, for_all(now), (time_limit ? model::ending_for_limit : 0) | model::ending_was_heard);
  own.steps.store(0);
  const bool done = put(own);
  own.steps.store(rungs);
  if (done) (void)put(own.steps);                // where there is no room for it the next runner begins anew
}

bool LaneNotes::put_end(unsigned bay, const HowItEnded& how, WallTime ended) {
  model::LaneBay& own = own_->bays[bay];
  own.exit_code = how.exit_code;
  own.signal = how.signal;
  own.flags = how.flags;
  own.ended_ms = ms_of(ended);
  own.peak_memory_kib = how.peak_memory_kib;
  own.seal = model::end_seal(own);
  return put_bytes(&own.exit_code, sizeof own - offsetof(model::LaneBay, exit_code));
}

void LaneNotes::command_ended(unsigned bay, const HowItEnded& how, WallTime ended) {
  const bool done = put_end(bay, how, ended);
  written(bay, behind_.contains(bay) ? put_bay(bay) : done);
}

void LaneNotes::ended(unsigned bay, const HowItEnded& how, WallTime ended) {
  model::LaneBay& own = own_->bays[bay];
  const bool done = put_end(bay, how, ended);
  own.phase.store(model::TaskPhase::ended);
  written(bay, behind_.contains(bay) ? put_bay(bay) : done && put(own.phase));
}

void LaneNotes::peak_gpu(unsigned bay, std::uint64_t mib) {
  own_->bays[bay].peak_gpu_mib = mib;
  written(bay, behind_.contains(bay) ? put_bay(bay) : put(own_->bays[bay].peak_gpu_mib));
}

// What a killed lane has not written is not known to anybody: how its tasks ended, and of a paused one how long it has run.
void LaneNotes::write_again(const std::function<void(const std::string&)>& say) {
  if (job_behind_) job_behind_ = !put_job();
  for (const unsigned bay : std::set(behind_)) written(bay, put_bay(bay));
  if (!behind()) return unwritten_.over();
  unwritten_.met(fmt::format("its lane's record cannot be written, and what its tasks come to is known to the lane alone: {}",
                             std::strerror(refusal_)), say);
}

}  // namespace thole::app
