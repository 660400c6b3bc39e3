#include "cli/show/map_output.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/output.hpp"
#include "cli/show/progress.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

namespace {

using model::Json;

constexpr std::size_t most_in_json = 1024 * 1024;  // of one stream of one task
constexpr std::size_t longest_line = 1024 * 1024;

[[noreturn]] void cannot_read_back(int why) {
  throw Error(ErrorCode::internal, "cannot read back what a task has written").because(why).hint(
      "keep it somewhere else: TMPDIR=DIR, --line-buffer or -u");
}

std::string in_memory(const port::Written& written) {
  if (!written.file) return written.text;
  std::optional<std::string> text = read_beginning(written.file.get(), std::min<std::uint64_t>(written.bytes, most_in_json));
  if (!text) cannot_read_back(errno);
  return *std::move(text);
}

constexpr int asking_to_end[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr Millis last_patience{1000};          // with a reader that takes nothing, once we were asked to end

}  // namespace

app::MapEvents MapOutput::events(app::RunEvents claims) {
  app::MapEvents events;
  events.claims = std::move(claims);
  events.text = [this](const app::MapTask& task, bool errors, std::string_view bytes) { text(task, errors, bytes); };
  events.text_ends = [this](const app::MapTask& task) { text_ends(task); };
  events.ended = [this](const app::MapTask& task, app::MapEnd end) { ended(task, std::move(end)); };
  events.is_stalled = [this] { return is_stalled(); };
  events.goes_on = outlet_.fd();
  return events;
}

void MapOutput::cannot_write(int why) {
  is_lost_ = true;
  throw Error(ErrorCode::internal, "cannot write the output of a task").because(why);
}

void MapOutput::write(int fd, std::string_view bytes) {
  // Results go to stdout: no task is given up for want of a place for its words.
  if (!bytes.empty() && !put_bytes(fd, bytes) && fd != STDERR_FILENO) cannot_write(errno);
}

bool MapOutput::is_stalled() {
  outlet_.taken();
  must_be_writable();
  return outlet_.is_behind();
}

void MapOutput::must_be_writable() {
  output_must_be_writable();
  if (log_) log_->must_be_writable(outlet_.failed(log_->fd()));
}

void MapOutput::output_must_be_writable() {
  if (const int why = outlet_.failed(STDOUT_FILENO)) cannot_write(why);
  if (const int why = outlet_.take_unread()) cannot_read_back(why);
}

std::optional<int> MapOutput::wait_until_read(const app::MapOutcome& outcome) {
  const std::optional<int> number = drain(outcome.interrupted.has_value());
  must_be_writable();
  return outcome.interrupted ? outcome.interrupted : number;
}

// A signal that comes meanwhile ends the waiting, and nothing else: the failure is what ends us.
void MapOutput::finish_after(const app::MapOutcome& failed) {
  if (is_lost_) return;
  try {
    finish();
    drain(failed.interrupted.has_value());
    output_must_be_writable();
  } catch (const Error& error) {
    if (error.sys_errno() != EPIPE) context_.warn(error.full());
  }
}

// Until all has been read or, which is the answer, a signal has come; once we were asked to end, as long as somebody reads.
std::optional<int> MapOutput::drain(bool interrupted) {
  sigset_t set;                                  // blocked, and the pool takes them no more; Ctrl-Z is nothing to do with us
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  sigemptyset(&set);
  for (const int number : asking_to_end) sigaddset(&set, number);
  const Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  const int until[] = {signals.get()};
  if (outlet_.drain(until, interrupted ? std::optional(last_patience) : std::nullopt)) return std::nullopt;
  signalfd_siginfo got;
  if (::read(signals.get(), &got, sizeof got) != sizeof got) return std::nullopt;
  return static_cast<int>(got.ssi_signo);
}

// Whole lines, so that tasks never share one, of a length that can be one.
void MapOutput::text(const app::MapTask& task, bool errors, std::string_view bytes) {
  Rest& rest = rests_[task.bay];
  Rest::Kept& kept = errors ? rest.errors : rest.output;
  const std::size_t newline = bytes.rfind('\n'), whole = newline == std::string_view::npos ? 0 : newline + 1;
  const bool is_too_long = whole == 0 && kept.text.size() + bytes.size() > longest_line;
  kept.text += bytes.substr(0, is_too_long ? bytes.size() : whole);
  if (whole > 0 || is_too_long) {
    write(errors ? STDERR_FILENO : STDOUT_FILENO, kept.text);
    kept = {.text = {}, .is_shown_in_part = is_too_long};
  }
  if (!is_too_long) kept.text += bytes.substr(whole);
}

// The next line there is another task's, or that of another try.
void MapOutput::text_ends(const app::MapTask& task) {
  const auto rest = rests_.find(task.bay);
  if (rest == rests_.end() || is_lost_) return;
  for (auto [kept, fd] : {std::pair{&rest->second.output, STDOUT_FILENO}, {&rest->second.errors, STDERR_FILENO}}) {
    if (!kept->text.empty() || kept->is_shown_in_part) write(fd, kept->text + "\n");
    *kept = {};
  }
}

void MapOutput::ended(const app::MapTask& task, app::MapEnd end) {
  log(task, end);
  if (!end.succeeded()) {
    if (first_failed_.empty()) first_failed_ = fmt::format("task {}", task.number);
    if (!end.problem.empty()) context_.warn(fmt::format("task {}: {}", task.number, end.problem));
    else if (end.how.time_limit) context_.warn(fmt::format("task {} was ended: its time is over", task.number));
    else context_.detail(fmt::format("task {} failed with status {}", task.number, end.status()));
  }
  if (context_.invocation.global.json) return show_json(task, end);
  if (!keep_order_) return show(end.output);
  in_order(task.order, std::move(end.output));
}

void MapOutput::log(const app::MapTask& task, const app::MapEnd& end) {
  if (!log_) return;
  plan::JobLogLine line;
  line.number = task.number;
  line.started = task.started;
  line.took = end.took;
  line.bytes = end.output.output.bytes;
  const bool was_ended = end.how.time_limit || end.how.released;   // as GNU parallel tells a --timeout
  line.exit_code = was_ended ? -1 : end.output.cut.empty() ? end.how.exit_code.value_or(0) : end.status();
  line.signal = end.how.signal.value_or(was_ended ? SIGTERM : 0);
  const std::string command = command_line(end.words);
  line.command = command;
  log_->add(line);
}

void MapOutput::in_order(std::uint64_t order, port::TaskOutput output) {
  const std::size_t at = order - next_;
  if (at > 0) {
    if (held_.size() <= at) held_.resize(at + 1);
    held_[at] = kept_.keep(std::move(output));
    return;
  }
  show(output);
  ++next_;
  if (!held_.empty()) held_.pop_front();
  while (!held_.empty() && held_.front().is_there) show_first();
}

void MapOutput::show_first() {
  KeptOutput& kept = held_.front();
  port::TaskOutput rest = kept_.take_rest(kept);
  std::size_t at = kept.at;
  for (auto [size, fd] : {std::pair{kept.output, STDOUT_FILENO}, {kept.errors, STDERR_FILENO}}) {
    if (size > 0 && !outlet_.put(fd, kept.file, at, size) && fd != STDERR_FILENO) cannot_write(errno);
    at += size;
  }
  show(rest);
  held_.pop_front();
  ++next_;
}

void MapOutput::finish() {
  while (!held_.empty()) show_first();           // of who has not ended: nothing
}

void MapOutput::show(port::TaskOutput& output) {
  for (auto [written, fd] : {std::pair{&output.output, STDOUT_FILENO}, {&output.errors, STDERR_FILENO}}) {
    write(fd, written->text);
    if (written->file && !outlet_.put(fd, std::move(written->file)) && fd != STDERR_FILENO) cannot_write(errno);
  }
}

void MapOutput::show_json(const app::MapTask& task, const app::MapEnd& end) {
  Json gpus = Json::array();
  for (const std::size_t unit : end.on.chosen)
    gpus.push_back({{"gpu", end.on.units[unit].label}, {"uuid", end.on.units[unit].key}});
  const Json line = {{"schema", "thole/map/1"},
                     {"event", "task"},
                     {"number", task.number},
                     {"item", task.cells},
                     {"command", end.words},
                     {"place", task.bay},
                     {"gpus", gpus},
                     {"tries", task.tries},
                     {"started", format_iso(task.started)},
                     {"duration_s", std::chrono::duration<double>(end.took).count()},
                     {"exit_code", model::or_null(end.how.exit_code)},
                     {"signal", model::or_null(end.how.signal)},
                     {"time_limit", end.how.time_limit},
                     {"released", end.how.released},
                     {"problem", model::or_null(end.problem)},
                     {"stdout", in_memory(end.output.output)},
                     {"stdout_bytes", end.output.output.bytes},
                     {"stderr", in_memory(end.output.errors)},
                     {"stderr_bytes", end.output.errors.bytes}};
  write(STDOUT_FILENO, model::dump(line, -1) + "\n");
}

void MapOutput::say_end(const app::MapOutcome& outcome, int status) {
  const plan::Tally& counts = outcome.counts;
  if (context_.invocation.global.json) {
    const Json line = {{"schema", "thole/map/1"},          {"event", "end"},
                       {"succeeded", counts.succeeded},    {"failed", counts.failed},
                       {"cut_short", outcome.cut_short},   {"halted", outcome.halted_by.has_value()},
                       {"interrupted_by", model::or_null(outcome.interrupted)}, {"exit_status", status}};
    write(STDOUT_FILENO, model::dump(line, -1) + "\n");
    return;
  }
  if (counts.failed == 0 && outcome.cut_short == 0) return;
  const std::uint64_t ended = counts.failed + counts.succeeded;
  std::string text = plural(ended, "task") + " succeeded";
  if (counts.failed > 0) text = fmt::format("{} of {} tasks failed, the first was {}", counts.failed, ended, first_failed_);
  if (outcome.cut_short > 0) text += fmt::format("; {} cut short", outcome.cut_short);
  context_.note(text);
}

}  // namespace thole::cli
