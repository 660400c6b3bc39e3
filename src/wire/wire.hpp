// The composition root: makes the adapters of one invocation and hands out what use cases need.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/claim/acquire.hpp"
#include "app/claim/bind_rank.hpp"
#include "app/claim/observer.hpp"
#include "app/claim/run.hpp"
#include "base/shell_kind.hpp"
#include "port/claim_control.hpp"
#include "port/claim_store.hpp"
#include "port/clock.hpp"
#include "port/commands.hpp"
#include "port/placeholder.hpp"
#include "port/processes.hpp"
#include "port/task_pool.hpp"
#include "wire/directory_paths.hpp"
#include "wire/settings.hpp"

namespace thole::host {
struct ClaimStoreOptions;
struct StateLocation;
struct QueuePaths;
class MachineFile;
}

namespace thole::wire {

class Queue;

// Adapters are made when first asked for: status of a hung driver needs no supervisor, `release` no driver.
class Wire {
 public:
  explicit Wire(Settings settings);   // first thing in main: it notes the signals that were ignored at start
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  const Settings& settings() const { return settings_; }
  const port::Clock& clock() const;
  app::Observer& observer();
  const app::Observer& glance();   // what files and the last answers tell of the GPUs; asks no driver, so it cannot hang
  port::ClaimStore& store();       // throws Error(unavailable) when no state directory can be used
  port::ClaimStore* find_store();  // for looking only: makes no directory and asks no driver; null where there is none
  port::Processes& processes();
  port::Commands& commands();      // one at a time, in our terminal
  std::unique_ptr<port::TaskPool> task_pool(port::OutputTo output);
  std::string folder_of_outputs() const;   // for files without a name
  port::ClaimControl& control();
  app::BindSite bind_site();
  app::DoorMaker door_maker();
  app::RankSite rank_site();       // for `bind`: needs no state directory
  port::Placeholder& placeholder();
  app::Site& site();               // of observer, store, clock and the settings
  app::RunPorts run_ports();
  host::QueuePaths queue_paths();
  // Somebody keeps the queue from being written, or has lost its log; from another thread. False: it could not be said.
  std::function<bool(const std::string&)> when_kept;
  Queue& queue();                  // made where there is none; throws Error(unavailable)
  Queue* find_queue();             // for looking only; null where there is none
  std::optional<model::JobId> job_of_lane(pid_t pid);   // as port::QueueDoor has it

  // From here on INT, TERM, HUP and QUIT make this descriptor readable instead of ending the program, so that a wait can be
  // left in order; die_if_interrupted() then ends it as the signal would have.
  int interruption();
  void die_if_interrupted();

  const DirectoryPaths& paths() const { return paths_; }

  std::string machine_file();      // of a simulated machine; "" for a shorthand and for this machine

  // Where the claims of this machine are kept.
  host::StateLocation state_location();

 private:
  std::unique_ptr<app::Observer> make_observer(bool ask_drivers);
  std::unique_ptr<app::Observer> look_anew();
  std::unique_ptr<host::MachineFile> open_machine_file();
  host::ClaimStoreOptions store_options();
  app::Lend lend();
  std::string machine_name();      // of a simulated machine, for directories

  struct Parts;
  Settings settings_;
  DirectoryPaths paths_;
  std::unique_ptr<Parts> parts_;
};

// A process that whoever asked for it watches himself:
// `end` becomes readable when it has ended, and it is his to be waited for.
struct Started {
  pid_t pid = -1;
  Fd end;
};
// Starts it (vfork style), with signals as this thread has them; those that Python ignores for itself are not ignored there.
// Throws as port::Processes::start.
Started start_process(const port::ProcessSpec& spec);

// Told when the names in /tmp or /var/tmp make each command slow: whose they are, and how to be rid of them.
void when_names_are_a_crowd(std::function<void(const std::string&)> tell);

// The name of a user, or the number where there is none.
std::string user_name(uid_t uid);

// The shell that runs us, for `claim --shell`; not a subshell of it.
pid_t calling_shell();
ShellKind kind_of_shell(pid_t shell);
ShellKind shell_above();   // the kind of the calling one

}  // namespace thole::wire
