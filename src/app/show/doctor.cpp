#include "app/show/doctor.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"

namespace thole::app {

namespace {

using Result = Check::Result;

constexpr Millis slow_look{2'000};  // a driver that takes longer to say what there is sleeps between programs

class Examination {
 public:
  explicit Examination(const Findings& findings) : findings_(findings) {}

  std::vector<Check> checks() {
    if (findings_.want)
      add("open files", Result::problem, std::string(findings_.want->what()) + "; what cannot be looked at is said below",
          findings_.want->hint());
    check_drivers();
    check_observations();
    check_gpus();
    check_cpus();
    check_state_directory();
    check_other_directories();
    check_container();
    check_outer();
    check_logout();
    check_runner();
    check_configuration();
    return std::move(checks_);
  }

 private:
  const Overview& overview() const { return findings_.overview; }
  const model::Surroundings& around() const { return findings_.surroundings; }
  bool simulated() const { return overview().snapshot.simulated; }

  void add(std::string name, Result result, std::string text, std::string fix = "") {
    checks_.push_back({std::move(name), result, std::move(text), std::move(fix)});
  }

  void check_drivers() {
    if (simulated())
      return add("driver", Result::ok, fmt::format("none needed: {} is a simulated machine", overview().snapshot.machine.name));
    if (around().drivers.empty() && !around().wsl && !overview().snapshot.machine.gpus.empty())
      return add("driver", Result::warning,   // a sandbox with a kernel of its own (gVisor)
                 fmt::format("{} can be used, though neither the PCI bus nor a loaded driver is seen from here",
                             gpus(overview().snapshot.machine.gpus.size())));
    if (around().drivers.empty() && !around().wsl)
      return add("driver", Result::problem, "no GPU on the PCI bus and no driver loaded",
                 "to try thole without one: thole --machine dgx-a100 status");
    for (const model::VendorDriver& driver : around().drivers) {
      const std::string name = fmt::format("{} driver", to_string(driver.vendor));
      if (driver.loaded)
        add(name, Result::ok,
            fmt::format("loaded{}, {} on the PCI bus", driver.loaded->empty() ? "" : ", version " + *driver.loaded,
                        gpus(driver.pci_gpus)));
      else
        add(name, Result::problem, fmt::format("{} on the PCI bus but the kernel driver is not loaded", gpus(driver.pci_gpus)),
            model::row_of(driver.vendor).mends.load);
      if (driver.loaded) check_nodes(driver);
    }
  }

  static std::string counted(std::size_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  }
  static std::string gpus(std::size_t count) { return counted(count, "GPU"); }

  void check_nodes(const model::VendorDriver& driver) {
    const model::DriverMends& mends = model::row_of(driver.vendor).mends;
    std::vector<std::string> closed;
    for (const model::DeviceNode& node : driver.nodes)
      if (!node.usable) closed.push_back(node.path);
    if (driver.nodes.empty() && driver.pci_gpus != 0)
      add("devices", Result::problem, fmt::format("the {} driver is loaded but has no device nodes", to_string(driver.vendor)),
          mends.make_nodes);
    else if (!closed.empty())
      add("devices", Result::problem, fmt::format("no permission for {}", join(closed, ", ")), mends.open_nodes);
    else if (!driver.nodes.empty())
      add("devices", Result::ok, fmt::format("{} device nodes, all of them usable", driver.nodes.size()));
    if (findings_.look > slow_look && driver.kept_awake == false)
      add("persistence", Result::warning,
          fmt::format("the driver took {:.1f} s to answer and no persistence daemon keeps it awake",
                      static_cast<double>(findings_.look.count()) / 1000),
          mends.keep_awake);
  }

  void check_observations() {
    for (const model::Observation& seen : overview().snapshot.observations) {
      const std::string name = fmt::format("reading {}", seen.backend);
      std::string text = seen.problem.empty() ? fmt::format("answered in {} ms", findings_.look.count()) : seen.problem;
      if (!seen.source.empty()) text += fmt::format(" ({})", seen.source);
      if (seen.age)
        text += fmt::format("; its last answer is {} old", format_duration(std::chrono::duration_cast<Seconds>(*seen.age)));
      add(name, seen.problem.empty() ? Result::ok : seen.answered ? Result::warning : Result::problem, text);
      if (seen.pids_foreign)
        add("processes", Result::warning,
            "process ids of the driver belong to another pid namespace, so users cannot be named and memory in use means busy",
            "run the container with --pid=host, or use thole outside it");
    }
  }

  bool is_said_of_reading(const std::string& reason) const {
    const auto says_it = [&](const model::Observation& seen) { return seen.problem == reason; };
    return !reason.empty() && std::ranges::any_of(overview().snapshot.observations, says_it);
  }

  void check_gpus() {
    const model::Machine& machine = overview().snapshot.machine;
    std::vector<std::string> unread;
    for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
      const model::Gpu& gpu = machine.gpus[g];
      const std::string name = fmt::format("GPU {}", g);
      if (gpu.health == model::Health::unreadable && is_said_of_reading(gpu.health_reason))
        unread.push_back(std::to_string(g));
      else if (gpu.health != model::Health::ok)
        add(name, Result::problem,
            fmt::format("{}{}", model::to_string(gpu.health), gpu.health_reason.empty() ? "" : ": " + gpu.health_reason),
            health_fix(gpu));
      for (const std::string& remark : gpu.remarks) add(name, Result::warning, remark);
      if (gpu.last_xid)
        add(name, gpu.health != model::Health::ok || is_programs_fault(*gpu.last_xid) ? Result::ok : Result::warning,
            fmt::format("the last Xid that the driver reported is {}{}", *gpu.last_xid,
                        is_programs_fault(*gpu.last_xid) ? ", most often a program's own fault" : ""),
            gpu.health != model::Health::ok ? "" : "sudo dmesg | grep Xid");
      if (gpu.compute_mode.value_or("") == "exclusive-process")
        add(name, Result::warning,
            "compute mode is exclusive-process: programs with several processes on one GPU fail, and sharing cannot work",
            fmt::format("sudo nvidia-smi -i {} -c DEFAULT", name_of(gpu, g)));
      if (gpu.compute_mode.value_or("") == "prohibited")
        add(name, Result::problem, "compute mode is prohibited: no program can use it",
            fmt::format("sudo nvidia-smi -i {} -c DEFAULT", name_of(gpu, g)));
      if (gpu.mig_mode && gpu.mig.empty() && gpu.health == model::Health::ok)
        add(name, Result::warning, "MIG mode is on but there are no instances, so nothing can be claimed",
            fmt::format("sudo nvidia-smi mig -i {} -cgi 0 -C, or switch it off: sudo nvidia-smi -i {} -mig 0", name_of(gpu, g),
                        name_of(gpu, g)));
      if (gpu.display.value_or(false))
        add(name, Result::ok, "drives a display: it is taken last, and a desktop's memory does not make it busy");
    }
    if (!unread.empty())
      add(fmt::format("{} {}", unread.size() == 1 ? "GPU" : "GPUs", join(unread, ",")), Result::problem,
          "unreadable, as the driver could not be read (above)");
    for (const UnitOverview& row : overview().units)
      if (row.state == State::unknown && row.holdings.empty() && row.unit.gpu_of(machine).health == model::Health::ok)
        add(fmt::format("GPU {}", row.unit.label), Result::warning, "is handed out to nobody: " + row.why);
    for (const UnitOverview& row : overview().units)
      if (!row.strangers.empty() && !row.holdings.empty())
        add(fmt::format("GPU {}", row.unit.label), Result::warning, "is claimed by one and used by another: " + row.why,
            fmt::format("thole why {}", row.unit.label));
    if (!machine.gpus.empty() && std::all_of(machine.gpus.begin(), machine.gpus.end(),
                                             [](const model::Gpu& gpu) { return gpu.health == model::Health::ok; }))
      add("health", Result::ok, fmt::format("{}, none of them sick", gpus(machine.gpus.size())));
  }

  void check_cpus() {
    const model::Machine& machine = overview().snapshot.machine;
    if (!findings_.topology_problem.empty()) return add("CPUs", Result::warning, findings_.topology_problem);
    if (machine.cpus.empty()) return add("CPUs", Result::ok, "none are named for this machine, so nothing is bound to CPUs");
    std::set<int> cores;
    for (const model::Cpu& cpu : machine.cpus)
      if (cpu.core) cores.insert(*cpu.core);
    std::string text = fmt::format("{} online", machine.cpus.size());
    if (!cores.empty()) text += fmt::format(" in {} cores", cores.size());
    add("CPUs", Result::ok, fmt::format("{}, {}, {}", text, counted(machine.numa.size(), "memory node"),
                                          counted(machine.nics.size(), "NIC")));
    const auto lost =
        std::count_if(machine.gpus.begin(), machine.gpus.end(), [](const model::Gpu& gpu) { return !gpu.near_cpus.node; });
    if (lost > 0)
      add("near CPUs", Result::warning,
          fmt::format("the platform names no near CPUs for {} of {}: they are bound to all CPUs allowed", lost,
                      gpus(machine.gpus.size())));
  }

  static std::string name_of(const model::Gpu& gpu, std::size_t index) {
    return gpu.uuid.empty() ? std::to_string(index) : gpu.uuid;
  }

  static std::string health_fix(const model::Gpu& gpu) {
    switch (gpu.health) {
      case model::Health::lost:
        return "it fell off the bus: look at dmesg for Xid 79; a cold start of the machine usually brings it back";
      case model::Health::reset_required:
        if (!gpu.health_reason.empty()) return "";           // what has to be done differs, and stands in the reason
        return gpu.uuid.empty() ? "sudo nvidia-smi --gpu-reset" : fmt::format("sudo nvidia-smi --gpu-reset -i {}", gpu.uuid);
      case model::Health::driver_mismatch:
        return "library and kernel module differ after an update: reboot, or reload the nvidia modules when nothing uses them";
      case model::Health::unreadable: return "look at dmesg; check the permissions of the device nodes";
      case model::Health::hung:
        return "the driver does not answer: look for processes in state D (ps -eo pid,stat,cmd), then reboot";
      case model::Health::ok: break;
    }
    return "";
  }

  // The cure that belongs to the problem, on the line below it; none else.
  void add_claims_problem(const char* name, const char* common_cure) {
    const std::string& problem = overview().claims_problem;
    const std::size_t line = std::min(problem.find('\n'), problem.size());
    const std::string cure(trim(std::string_view(problem).substr(line)));
    add(name, Result::problem, problem.substr(0, line), cure.empty() ? common_cure : cure);
  }

  void check_state_directory() {
    if (!findings_.store && !overview().claims_problem.empty()) return add_claims_problem("state directory", "sudo thole init");
    if (const Directory& claims = findings_.directories.claims; !claims.problem.empty())
      return add("state directory", Result::problem, "the first claim cannot make it: " + claims.problem, claims.fix);
    if (!findings_.store)
      return !findings_.state_dir.empty()
                 ? add("state directory", Result::ok, fmt::format("none yet: the first claim makes {}", findings_.state_dir))
             : simulated() ? add("state directory", Result::ok, "none yet: the first claim makes it in the personal directory")
                         : add("state directory", Result::warning,
                               "none yet: the first user's claim makes one for friendly users", "sudo thole init");
    const port::StoreAbout& store = *findings_.store;
    const bool advisory = store.kind == "fallback";
    add("state directory", advisory ? Result::warning : Result::ok,
        fmt::format("{} ({}){}", store.directory, store.kind, advisory ? ": claims are advisory between friendly users" : ""),
        advisory ? "sudo thole init" : "");
    if (!overview().claims_problem.empty())
      add_claims_problem("claims", "continue or end that process (kill -CONT, kill); if none has it: sudo thole init");
    for (const std::string& caution : store.cautions) add("state directory", Result::warning, caution);
    // /run/thole is the best; another one beside it is left over from before it was made.
    if (!simulated() && store.kind != "explicit" && around().common_directories.size() > 1)
      add("state directory", Result::warning,
          fmt::format("there are {}; {} counts, programs started before it was made may still hold claims in another",
                      join(around().common_directories, " and "), store.directory),
          "when `thole status` shows nobody, remove the others");
  }

  void check_other_directories() {
    const Directories& all = findings_.directories;
    const auto where = [](const Directory& directory, const char* made_by) {
      if (directory.there) return directory.path;
      const std::string number = fmt::format(", with a number for XXXXXXXX, as somebody else has {}", directory.taken);
      return fmt::format("{}: none yet, made by {}{}", directory.path, made_by, directory.taken.empty() ? "" : number);
    };
    if (!all.personal.problem.empty()) add("personal directory", Result::problem, all.personal.problem, all.personal.fix);
    else add("personal directory", Result::ok, where(all.personal, "the first claim or look"));
    for (const std::string& crowd : all.crowds_of_names) add("personal directory", Result::warning, crowd);
    if (!all.caches.empty()) add("caches", Result::ok, all.caches);
    if (!all.queue.problem.empty()) return add("queue directory", Result::problem, all.queue.problem, all.queue.fix);
    add("queue directory", Result::ok, where(all.queue, "the first submit"));
    add("queue logs", Result::ok, all.logs);
    for (const Directory& file : all.queue_files) add("queue files", Result::problem, file.problem, file.fix);
    for (const std::string& caution : all.queue_cautions) add("queue directory", Result::warning, caution);
    for (const std::string& other : all.other_queues)
      add("queue directory", Result::warning, fmt::format("there is another queue of yours, not used here: {}", other),
          fmt::format("thole --queue-dir {} jobs; a queue goes by the host's name", shell_quote(other)));
  }

  void check_container() {
    if (!around().container || simulated() || !findings_.store) return;
    if (around().state_dir_mounted)
      add("container", Result::ok, fmt::format("{} is shared with the outside", findings_.store->directory));
    else
      add("container", Result::warning, "claims made in this container are not seen outside it",
          "start it with: -v /run/thole:/run/thole --pid=host");
  }

  void check_outer() {
    const plan::Outer& outer = overview().outer;
    if (!outer.named_by.empty()) {
      const auto visible = std::count(outer.visible.begin(), outer.visible.end(), true);
      add("allotment", visible == 0 ? Result::problem : Result::ok,
          fmt::format("{} leaves {} of {} to this process", outer.named_by, visible, gpus(outer.visible.size())),
          visible == 0 ? unset_in(findings_.shell, outer.variables) : "");
    }
    for (const std::string& caution : outer.cautions) add("allotment", Result::warning, caution);
    if (around().safe_gpu && !simulated())
      add("safe-gpu", Result::ok, "its lock is on this machine; thole takes it while choosing, so that both see each other");
  }

  // Whether the queue outlives the session it was filled from.
  void check_logout() {
    const model::Logout& logout = around().logout;
    if (logout.ends_all && !logout.lingers)
      return add("queue", Result::warning, "logind ends all that a user runs when he logs out, also his queued jobs' tasks",
                 "loginctl enable-linger");
    std::string text = "jobs go on after you have logged out";
    if (logout.lingers) text += "; to have it go on after a boot: systemctl --user enable thole-runner";
    else
      text += logout.logind ? "; after a boot with your next thole, or by themselves after loginctl enable-linger"
                            : "; after a boot with your next thole";
    if (findings_.directories.queue_kept.empty()) add("queue", Result::ok, text);
  }

  void check_runner() {
    if (const std::string& who = findings_.directories.queue_kept; !who.empty())
      add("queue", Result::problem, "nothing can be changed in it: " + who, "continue or end that process (kill -CONT, kill)");
    if (const auto runner = findings_.stopped_runner)
      add("queue runner", Result::problem, fmt::format("somebody has stopped it (process {}): nothing queued starts", *runner),
          fmt::format("kill -CONT {}", *runner));
  }

  void check_configuration() {
    for (const Error& mistake : findings_.config_mistakes)
      add("configuration", Result::problem,
          fmt::format("every other command ends with {}: {}", exit_status(mistake.code()), mistake.without_hint()),
          mistake.hint().empty() ? "mend that line, or take it out" : mistake.hint());
    for (const std::string& caution : findings_.config_cautions) add("configuration", Result::warning, caution);
    if (findings_.config_cautions.empty() && findings_.config_mistakes.empty())
      add("configuration", Result::ok, findings_.config_files.empty() ? "no file" : join(findings_.config_files, ", "));
  }

  const Findings& findings_;
  std::vector<Check> checks_;
};

}  // namespace

const char* to_string(Check::Result result) {
  switch (result) {
    case Result::ok: return "ok";
    case Result::warning: return "warning";
    case Result::problem: return "problem";
  }
  return "problem";
}

std::vector<Check> examine(const Findings& findings) { return Examination(findings).checks(); }

}  // namespace thole::app
