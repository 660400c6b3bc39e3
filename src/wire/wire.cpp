// The composition root.
#include "wire/wire.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/text.hpp"
#include "host/claims/safe_gpu_lock.hpp"
#include "host/claims/store.hpp"
#include "host/clock/system_clock.hpp"
#include "host/control/local_control.hpp"
#include "host/gpu/file/machine_file.hpp"
#include "host/gpu/file/search.hpp"
#include "host/gpu/nvidia/placeholder.hpp"
#include "host/gpu/vendors.hpp"
#include "host/process/local_binder.hpp"
#include "host/process/local_commands.hpp"
#include "host/process/local_processes.hpp"
#include "host/process/spawn.hpp"
#include "host/process/task_pool.hpp"
#include "host/process/tree.hpp"
#include "host/store/queue_dir.hpp"
#include "host/topology/live.hpp"
#include "host/user_name.hpp"
#include "plan/place/free.hpp"
#include "wire/carry.hpp"
#include "wire/init.hpp"
#include "wire/late_store.hpp"
#include "wire/queue.hpp"

namespace thole::wire {

namespace {

// Whoever changes to another directory later means the same files.
Settings seen_from_anywhere(Settings settings) {
  for (std::string* directory : {&settings.state_dir, &settings.queue_dir, &settings.personal_dir})
    if (!directory->empty()) *directory = from_anywhere(*directory);
  return settings;
}

using Backends = std::vector<std::unique_ptr<port::GpuBackend>>;

// Not a program that uses the library: what outlives us must not become its child.
bool is_this_program(const std::string& program) {
  std::error_code ignored;
  return !program.empty() && std::filesystem::equivalent(program, "/proc/self/exe", ignored);
}

// The vendors' backends of the live machine; one that has nothing here is left out. Without a program to run as the probe they
// read files alone.
Backends live_backends(const Settings& settings, const std::string& program, const std::string& personal_root) {
  const host::DriverOptions options{settings.sysroot, program, personal_root, settings.nvml_library, is_this_program(program)};
  Backends present;
  for (const host::GpuVendor* vendor : host::gpu_vendors())
    if (auto backend = vendor->backend(options); backend->present()) present.push_back(std::move(backend));
  return present;
}

// By a command that has asked for an answer, while its keeper asks the drivers.
constexpr Millis patience_of_who_is_asked{2'000};

bool is_directory(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

struct Wire::Parts {
  host::InheritedSignals inherited = host::InheritedSignals::capture();
  host::SystemClock clock;
  host::MachineFile* file = nullptr;             // owned by the observer
  std::unique_ptr<host::LiveTopology> topology;
  std::unique_ptr<app::Observer> observer, glance;
  std::unique_ptr<port::ClaimStore> store;
  std::unique_ptr<LateStore> late_store;
  std::unique_ptr<port::Processes> processes;
  std::unique_ptr<port::Commands> commands;
  std::unique_ptr<port::ClaimControl> control;
  std::unique_ptr<port::Placeholder> placeholder;
  std::unique_ptr<host::Interruption> interruption;
  host::LocalBinder binder;
  std::unique_ptr<app::Site> site;
  std::unique_ptr<Queue> queue;
};

Wire::Wire(Settings settings)
    : settings_(seen_from_anywhere(std::move(settings))), paths_(settings_), parts_(std::make_unique<Parts>()) {}
Wire::~Wire() = default;

const port::Clock& Wire::clock() const { return parts_->clock; }

app::Observer& Wire::observer() {
  if (!parts_->observer) parts_->observer = make_observer(true);
  return *parts_->observer;
}

const app::Observer& Wire::glance() {
  if (!settings_.machine.empty()) {  // a file in any case
    observer().look(settings_.probe_cold);
    return observer();
  }
  if (!parts_->glance) parts_->glance = make_observer(false);
  parts_->glance->look(Millis{0});
  return *parts_->glance;
}

std::unique_ptr<host::MachineFile> Wire::open_machine_file() {
  const host::TopologyReader reader({settings_.program, "", settings_.hwloc_library});
  return std::make_unique<host::MachineFile>(settings_.machine,
                                             host::machine_directories(settings_.machines_dir, settings_.program),
                                             [reader](const std::string& xml) { return reader.read_xml(xml); });
}

// The CPUs are the same as before.
std::unique_ptr<app::Observer> Wire::look_anew() {
  Backends backends;
  if (settings_.machine.empty()) backends = live_backends(settings_, settings_.program, paths_.personal_or_none());
  else backends.push_back(open_machine_file());
  auto observer = std::make_unique<app::Observer>(std::move(backends), nullptr, parts_->clock, !settings_.machine.empty());
  observer->look(std::min<Millis>(settings_.probe_cold, patience_of_who_is_asked));
  observer->rest();                              // no probe of ours beside a job
  return observer;
}

std::unique_ptr<app::Observer> Wire::make_observer(bool ask_drivers) {
  Backends backends;
  port::TopologySource* topology = nullptr;
  if (settings_.machine.empty()) {
    const std::string root = paths_.personal_or_none();
    backends = live_backends(settings_, ask_drivers ? settings_.program : std::string(), root);
    if (!parts_->topology)
      parts_->topology = std::make_unique<host::LiveTopology>(
          host::LiveTopologyOptions{settings_.sysroot, {settings_.program, root, settings_.hwloc_library}});
    topology = parts_->topology.get();
  } else {
    auto file = open_machine_file();
    topology = parts_->file = file.get();
    backends.push_back(std::move(file));
  }
  return std::make_unique<app::Observer>(std::move(backends), topology, parts_->clock, !settings_.machine.empty());
}

host::StateLocation Wire::state_location() {
  if (!settings_.state_dir.empty()) return host::StateLocation::named(settings_.state_dir);
  if (settings_.machine.empty()) {
    host::StateLocation location = host::StateLocation::common();
    if (!settings_.state_group.empty()) location.paths.fallbacks.clear();  // no way around the site's gate
    return location;
  }
  return host::StateLocation::personal(paths_.personal(), machine_name());
}

std::string Wire::machine_file() {
  if (settings_.machine.empty()) return "";
  observer();
  return parts_->file->path();
}

std::string Wire::machine_name() { return paths_.machine_name(machine_file()); }

host::ClaimStoreOptions Wire::store_options() {
  host::ClaimStoreOptions options;
  options.location = state_location();
  options.personal_root = [paths = paths_] { return paths.personal(); };
  const bool common = options.location.kind == host::StateLocation::Kind::common;
  if (common && settings_.uid == 0 && !settings_.state_group.empty()) options.group = group_id(settings_.state_group);
  if (settings_.machine.empty()) options.neighbours = host::safe_gpu_lock_files(settings_.sysroot);
  return options;
}

// A directory that is ours to make gets nodes for the units of the machine.
port::ClaimStore& Wire::store() {
  if (parts_->store) return *parts_->store;
  host::ClaimStoreOptions options = store_options();
  if (observer().snapshot().taken_at == WallTime{})
    observer().look(settings_.probe_cold, {port::Purpose::claim, {}});  // else a hung driver is waited for twice
  for (const model::Unit& unit : observer().units()) options.units.push_back(unit.key);
  parts_->store = host::open_claim_store(std::move(options));
  return *parts_->store;
}

port::ClaimStore* Wire::find_store() {
  if (parts_->store) return parts_->store.get();
  const bool in_personal = settings_.state_dir.empty() && !settings_.machine.empty();
  if (in_personal && !paths_.find_personal()) {
    host::refuse_if_lost(host::StateLocation::personal(paths_.plain_personal(), machine_name()));
    if (!paths_.find_personal()) return nullptr;   // else another process of ours has made it meanwhile
  }
  host::ClaimStoreOptions options = store_options();
  if (observer().snapshot().taken_at != WallTime{})
    for (const model::Unit& unit : observer().units()) options.units.push_back(unit.key);   // so that it says which it lacks
  parts_->store = host::find_claim_store(std::move(options));
  return parts_->store.get();
}

port::Processes& Wire::processes() {
  if (!parts_->processes) parts_->processes = std::make_unique<host::LocalProcesses>(parts_->inherited);
  return *parts_->processes;
}

port::Commands& Wire::commands() {
  if (!parts_->commands) 
    parts_->commands = std::make_unique<host::LocalCommands>(parts_->inherited, host::LocalCommands::Runs::in_foreground);
  return *parts_->commands;
}

std::string Wire::folder_of_outputs() const {
  const auto named = settings_.environment.find("TMPDIR");
  const bool usable = named != settings_.environment.end() && is_directory(named->second);
  return usable ? named->second : "/tmp";
}

std::unique_ptr<port::TaskPool> Wire::task_pool(port::OutputTo output) {
  return std::make_unique<host::EpollPool>(parts_->inherited, output, folder_of_outputs());
}

port::ClaimControl& Wire::control() {
  if (!parts_->control) parts_->control = std::make_unique<host::LocalControl>(parts_->inherited);
  return *parts_->control;
}

port::Placeholder& Wire::placeholder() {
  if (!parts_->placeholder)
    parts_->placeholder = std::make_unique<host::NvidiaPlaceholder>(host::PlaceholderOptions{
        settings_.program, std::string(plan::placeholder_name), settings_.cuda_library,
        host::safe_gpu_lock_files(settings_.sysroot), settings_.probe_cold});
  return *parts_->placeholder;
}

int Wire::interruption() {
  if (!parts_->interruption) parts_->interruption = std::make_unique<host::Interruption>(parts_->inherited);
  return parts_->interruption->fd();
}

void Wire::die_if_interrupted() {
  if (!parts_->interruption) return;
  const std::optional<int> signal = parts_->interruption->taken();
  parts_->interruption.reset();
  if (signal) host::die_by(*signal);
}

host::QueuePaths Wire::queue_paths() {
  return paths_.queue(settings_.machine.empty() ? std::string() : machine_name());
}

Queue& Wire::queue() {
  if (parts_->queue) return *parts_->queue;
  host::QueueDir directory = host::open_queue_dir(queue_paths());
  parts_->queue = std::make_unique<Queue>(*this, std::move(directory.path), std::move(directory.unexpected));
  return *parts_->queue;
}

Queue* Wire::find_queue() {
  if (parts_->queue) return parts_->queue.get();
  const auto found = host::find_queue_dir(queue_paths());
  if (found) parts_->queue = std::make_unique<Queue>(*this, found->path, found->unexpected);
  return parts_->queue.get();
}

// A queue that cannot be looked at has no jobs to tell of.
std::optional<model::JobId> Wire::job_of_lane(pid_t pid) {
  try {
    Queue* queue = find_queue();
    return queue ? queue->door().job_of_lane(pid) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

app::Site& Wire::site() {
  if (!parts_->late_store) parts_->late_store = std::make_unique<LateStore>([this]() -> port::ClaimStore& { return store(); });
  if (parts_->site) return *parts_->site;
  parts_->site =
      std::make_unique<app::Site>(app::Site{observer(), *parts_->late_store, parts_->clock, settings_.environment,
                                            settings_.free_policy, settings_.of_the_site, settings_.uid, user_name,
                                            settings_.probe_cold, lend(), shell_above});
  parts_->site->look_anew = [this] { return look_anew(); };
  return *parts_->site;
}

app::Lend Wire::lend() {
  return [this](const std::string& id) {
    return control().descriptors({id, paths_.find_claim(id, settings_.uid), settings_.uid}, {});
  };
}

app::RunPorts Wire::run_ports() {
  return {site(), processes(), commands(), control(),
          [this](const std::string& id, uid_t owner) { return paths_.find_claim(id, owner); },
          [this](const std::string& id) { return paths_.new_claim(id); }, door_maker(), bind_site(),
          [this](pid_t pid) { return job_of_lane(pid); }};
}

app::DoorMaker Wire::door_maker() {
  return [this](port::DoorSpec spec) {
    spec.directory = paths_.new_claim(spec.about.id);
    return control().open(std::move(spec));
  };
}

// A captured tree is another machine as much as a machine file is.
app::BindSite Wire::bind_site() { return {parts_->binder, settings_.machine.empty() && settings_.sysroot.empty()}; }

app::RankSite Wire::rank_site() {
  return {observer(), bind_site(), settings_.environment, settings_.probe_cold, [this] { return find_store(); }};
}

pid_t calling_shell() { return host::calling_shell(); }
ShellKind kind_of_shell(pid_t shell) { return host::kind_of_shell(shell); }
ShellKind shell_above() { return kind_of_shell(calling_shell()); }

Started start_process(const port::ProcessSpec& spec) {
  host::InheritedSignals inherited = host::InheritedSignals::capture();
  sigdelset(&inherited.ignored, SIGPIPE);
  sigdelset(&inherited.ignored, SIGXFSZ);
  host::Launch launch(spec, inherited);
  const host::AllSignalsBlocked blocked;
  Started started;
  started.pid = launch.start_again(started.end);
  return started;
}

void when_names_are_a_crowd(std::function<void(const std::string&)> tell) { host::when_names_are_a_crowd(std::move(tell)); }

std::string user_name(uid_t uid) { return host::user_name(uid); }

}  // namespace thole::wire
