#include "wire/queue.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "app/queue/runner.hpp"
#include "app/queue/task_lives.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/printable_lines.hpp"
#include "base/text.hpp"
#include "host/clock/timer_alarm.hpp"
#include "host/process/local_commands.hpp"
#include "host/queue/local_door.hpp"
#include "host/queue/local_lanes.hpp"
#include "host/queue/log_files.hpp"
#include "host/queue/runners_children.hpp"
#include "host/store/job_store.hpp"
#include "host/surroundings/host_name.hpp"
#include "wire/carry.hpp"
#include "wire/config.hpp"
#include "wire/wire.hpp"

namespace thole::wire {

namespace {

constexpr std::size_t longest_runner_log = 1u << 20;

// What a runner takes of its starter's environment: who and where we are, and the configuration. Not the claim, the task or the
// masks of where it was started from: each job brings its own environment.
bool belongs_to_runner(std::string_view name) {
  static constexpr std::string_view exact[] = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TMPDIR",
                                               "LD_LIBRARY_PATH", "DBUS_SESSION_BUS_ADDRESS"};
  if (std::ranges::find(exact, name) != std::end(exact) || name.starts_with("LC_") || name.starts_with("XDG_")) return true;
  if (!name.starts_with("THOLE_")) return false;
  return std::ranges::any_of(config_keys(), [&](const ConfigKey& key) { return key.variable == name; });
}

}  // namespace

struct Queue::Parts {
  host::SqliteJobStore jobs;
  host::LocalDoor door;
  host::LocalLanes lanes;
  host::LogFiles logs;
  host::RunnersChildren children{};
  host::InheritedSignals inherited{};            // of the runner; see ports()
};

Queue::Queue(Wire& wire, std::string directory, std::string unexpected)
    : wire_(wire), directory_(std::move(directory)), unexpected_(std::move(unexpected)) {
  const Settings& settings = wire.settings();
  host::BareCommand command;
  command.argv = {settings.program, "__runner"};
  std::map<std::string, std::string> variables = carry();
  for (const auto& [name, value] : settings.environment)
    if (belongs_to_runner(name)) variables.emplace(name, value);
  for (const auto& [name, value] : variables) command.environment.push_back(name + "=" + value);
  parts_.reset(new Parts{.jobs = host::SqliteJobStore({.directory = directory_, .kept = [this](const std::string& by) {
                           return !wire_.when_kept || wire_.when_kept(by);
                         }}),
                         .door = {directory_, std::move(command)},
                         .lanes = host::LocalLanes(directory_),
                         .logs = host::LogFiles(directory_ + "/logs")});
  parts_->door.file_was_made_newer = [&jobs = parts_->jobs] { return jobs.was_made_newer(); };
}

Queue::~Queue() = default;

port::JobStore& Queue::jobs() { return parts_->jobs; }
port::QueueDoor& Queue::door() { return parts_->door; }

// By these a job's own thole, and the runner itself, find the same machine, claims and queue.
std::map<std::string, std::string> Queue::carry() const {
  std::map<std::string, std::string> variables = carried(wire_.settings());
  variables["THOLE_QUEUE_DIR"] = directory_;
  return variables;
}

app::QueuePorts Queue::ports() {
  Parts& parts = *parts_;
  parts.inherited = host::InheritedSignals::capture();
  const std::string name = host::host_name();
  return {.site = [this]() -> app::Site& { return wire_.site(); },
          .jobs = parts.jobs,
          .lanes = parts.lanes,
          .children = parts.children,
          .door = parts.door,
          .logs = parts.logs,
          .keeper = [&parts, &clock = wire_.clock()] {
            auto commands =
                std::make_unique<host::LocalCommands>(parts.inherited, host::LocalCommands::Runs::in_background);
            host::LocalCommands& made = *commands;
            auto lives = std::make_unique<app::TaskLives>(std::move(commands), clock);
            made.before_burial = [&lives = *lives](const port::CommandEnded& end) { lives.before_burial(end); };
            return lives;
          },
          .bind = wire_.bind_site(),
          .make_door = wire_.door_maker(),
          .clock = wire_.clock(),
          .carry = carry(),
          .queue = directory_,
          .host = name.empty() ? "localhost" : name,
          .boot = host::known_boot(),
          .say = [this](const std::string& text) { say_in_log(text); }};
}

bool Queue::say_in_log(const std::string& text) {
  const Fd log = create_at(AT_FDCWD, (directory_ + "/runner.log").c_str(), O_WRONLY | O_APPEND, 0600);
  if (log && static_cast<std::size_t>(std::max<off_t>(::lseek(log.get(), 0, SEEK_END), 0)) > longest_runner_log &&
      ::ftruncate(log.get(), 0) != 0)
    return false;
  return write_all(log.get(), fmt::format("{} {}\n", format_iso(wire_.clock().wall()), printable(in_one_line(text), 2000)));
}

void Queue::run(bool relieves) {
  const Settings& settings = wire_.settings();
  host::TimerAlarm alarm;
  app::RunnerOptions options;
  options.cpu_lanes = settings.cpu_tasks.value_or(std::max(1u, std::thread::hardware_concurrency()));
  options.keep.ended_for = settings.queue_keep;
  options.relieves = relieves;
  const app::QueuePorts all = ports();
  wire_.when_kept = [this](const std::string& text) { return say_in_log(text); };
  try {
    app::run_runner(all, alarm, options);
  } catch (const Error& error) {
    all.say(fmt::format("the runner ended: {}", error.full()));
    throw;
  } catch (const std::exception& error) {
    all.say(fmt::format("the runner ended: {}", error.what()));
    throw;
  }
}

void become_runner_process() { host::become_runner_process(); }

}  // namespace thole::wire
