#include "wire/config.hpp"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/surroundings/host_name.hpp"
#include "host/user_namespace.hpp"
#include "wire/carry.hpp"
#include "wire/toml.hpp"

namespace thole::wire {

namespace {

using Values = std::vector<std::string>;

[[noreturn]] void throw_expected(const std::string& where, std::string_view expected, const Values& values) {
  throw Error(ErrorCode::usage, fmt::format("{}: expected {}, got \"{}\"", where, expected, printable(join(values, ","), 60)));
}

const std::string& one(const Values& values, const std::string& where) {
  if (values.size() != 1 || values.front().empty()) throw_expected(where, "one value", values);
  return values.front();
}

// The result of a reading that may fail, or the mistake with its position.
template <class T>
T must(std::optional<T> result, std::string_view expected, const Values& values, const std::string& where) {
  if (!result) throw_expected(where, expected, values);
  return *result;
}

Millis duration(const Values& values, const std::string& where) {
  return must(parse_duration(one(values, where)), "a time such as 30m", values, where);
}

// Of days one thinks in days: taken for seconds, a number alone would delete what was to be kept.
Seconds retention(const Values& values, const std::string& where) {
  const std::string& text = one(values, where);
  const Millis time = must(parse_duration(text), "a time such as 30d", values, where);
  if (text.find_first_not_of("0123456789. \t") == std::string::npos)
    throw Error(ErrorCode::usage, fmt::format("{}: {} of what? What has ended for longer is deleted with its log", where, text))
        .hint(fmt::format("with its unit: \"{0}d\" for days, \"{0}h\" for hours", trim(text)));
  return std::chrono::ceil<Seconds>(time);
}

unsigned count(const Values& values, const std::string& where) {
  auto number = parse_u64(one(values, where));
  if (number && (*number == 0 || *number > std::numeric_limits<unsigned>::max())) number.reset();
  return static_cast<unsigned>(must(number, "a number from 1 on", values, where));
}

// What was probably meant by a path that does not begin at the root.
std::string absolute_for(const std::string& path, const plan::Environment& environment) {
  const auto home = environment.find("HOME");
  for (const std::string_view word : {"~/", "$HOME/", "${HOME}/"})
    if (path.starts_with(word) && home != environment.end() && home->second.starts_with('/'))
      return from_anywhere(home->second + "/" + path.substr(word.size()));
  return from_anywhere(path);
}

// A relative one would be another directory for each folder that thole is run from: two books of the same GPUs.
std::string directory(const Config& config, const Values& values, const std::string& where) {
  const std::string& path = one(values, where);
  if (path.starts_with('/')) return path;
  throw Error(ErrorCode::usage,
              fmt::format("{}: \"{}\" is no absolute path: run from elsewhere, thole would take another directory", where,
                          printable(path)))
      .hint(fmt::format("say all of it: \"{}\"", printable(absolute_for(path, config.settings.environment))));
}

double percent(const Values& values, const std::string& where) {
  auto percent = parse_percent(one(values, where));
  if (percent && *percent > 100) percent.reset();
  return must(percent, "a percentage such as 50%", values, where);
}

bool flag(const Values& values, const std::string& where) {
  const std::string& text = one(values, where);
  if (text == "true" || text == "1" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "no") return false;
  throw_expected(where, "true or false", values);
}

// A library or a system prefix of the caller's choice could run foreign code, or pass off foreign files, with rights
// that the caller himself does not have.
std::string unless_elevated(const std::string& text) { return ::getauxval(AT_SECURE) != 0 ? std::string() : text; }

// clang-format off
using C = Config;
using V = Values;
using S = std::string;
constexpr ConfigKey key_rows[] = {
  {"machine", "THOLE_MACHINE", "FILE|NAME", "the simulated machine to use instead of this one",
   [](C& c, const V& v, const S& w) { c.settings.machine = one(v, w); }},
  {"state_dir", "THOLE_STATE_DIR", "DIR", "where claims and the queue are kept",
   [](C& c, const V& v, const S& w) { c.settings.state_dir = directory(c, v, w); }},
  {"personal_dir", "THOLE_PERSONAL_DIR", "DIR", "where your own files of the moment lie (default /tmp/thole-UID)",
   [](C& c, const V& v, const S& w) { c.settings.personal_dir = directory(c, v, w); }},
  {"state.group", "", "GROUP", "only members of GROUP may claim (`thole init --group` writes this line)",
   [](C& c, const V& v, const S& w) { c.settings.state_group = one(v, w); }},
  {"queue.dir", "THOLE_QUEUE_DIR", "DIR", "where the queue and its logs are kept",
   [](C& c, const V& v, const S& w) { c.settings.queue_dir = directory(c, v, w); }},
  {"queue.keep", "THOLE_QUEUE_KEEP", "TIME", "how long ended jobs and their logs are kept (default 90d)",
   [](C& c, const V& v, const S& w) { c.settings.queue_keep = retention(v, w); }},
  {"queue.cpu_tasks", "THOLE_CPU_TASKS", "N", "tasks of jobs without GPUs at once (default: one for each CPU)",
   [](C& c, const V& v, const S& w) { c.settings.cpu_tasks = count(v, w); }},
  {"machines_dir", "THOLE_MACHINES", "DIR", "where machine names are looked for first",
   [](C& c, const V& v, const S& w) { c.settings.machines_dir = directory(c, v, w); }},
  {"request.wait", "THOLE_WAIT", "TIME", "--wait where the line says nothing; 0 = --no-wait",
   [](C& c, const V& v, const S& w) { c.request.wait = duration(v, w); }},
  {"request.pick", "THOLE_PICK", "ORDER", "--pick where the line says nothing",
   [](C& c, const V& v, const S& w) {
     c.request.pick = must(model::parse_pick(one(v, w)), "pack, first, last, random, load or memory", v, w); }},
  {"request.beside", "THOLE_BESIDE", "WHOSE", "--beside where the line says nothing",
   [](C& c, const V& v, const S& w) { c.request.beside = must(model::parse_beside(one(v, w)), "none, mine or any", v, w); }},
  {"request.max_load", "THOLE_MAX_LOAD", "PERCENT", "--max-load where the line says nothing",
   [](C& c, const V& v, const S& w) { c.request.max_load_percent = percent(v, w); }},
  {"request.max_memory", "THOLE_MAX_MEMORY", "PERCENT", "--max-memory where the line says nothing",
   [](C& c, const V& v, const S& w) { c.request.max_memory_percent = percent(v, w); }},
  {"request.trust_claims", "THOLE_TRUST_CLAIMS", "true|false", "--trust-claims always",
   [](C& c, const V& v, const S& w) { c.request.trust_claims = flag(v, w); }},
  {"request.ids", "THOLE_IDS", "FORM", "--ids where the line says nothing",
   [](C& c, const V& v, const S& w) {
     c.ids = one(v, w);
     if (c.ids != "auto" && c.ids != "uuid" && c.ids != "index") throw_expected(w, "auto, uuid or index", v); }},
  {"bind.mode", "THOLE_BIND", "MODE", "--bind where the line says nothing; none leaves the CPUs alone",
   [](C& c, const V& v, const S& w) { if (!c.binding.set_mode(one(v, w))) throw_expected(w, model::bind_modes, v); }},
  {"bind.mem", "THOLE_MEM", "POLICY", "--mem where the line says nothing",
   [](C& c, const V& v, const S& w) {
     if (!c.binding.set_memory(join(v, ","))) throw_expected(w, "first-touch, preferred, bind or interleave", v); }, true},
  {"bind.smt", "THOLE_SMT", "THREADS", "--smt where the line says nothing",
   [](C& c, const V& v, const S& w) { c.binding.smt = must(model::parse_smt(one(v, w)), "all or one", v, w); }},
  {"bind.nic", "THOLE_NIC", "WHICH", "--nic where the line says nothing",
   [](C& c, const V& v, const S& w) { c.binding.nic = must(model::parse_nic_mode(one(v, w)), "near, all or none", v, w); }},
  {"bind.threads", "THOLE_THREADS", "N|auto", "--threads where the line says nothing",
   [](C& c, const V& v, const S& w) {
     c.binding.threads = must(model::parse_threads(one(v, w)), "a number, auto or keep", v, w);
   }},
  {"bind.reserve", "THOLE_RESERVE", "CPUS", "--reserve where the line says nothing",
   [](C& c, const V& v, const S& w) {
     c.binding.reserve = must(model::parse_reserve(join(v, ",")), "a CPU list, first-of-l3 or none", v, w); }, true},
  {"bind.lend", "THOLE_LEND", "true|false", "--lend always",
   [](C& c, const V& v, const S& w) { c.binding.lend = flag(v, w); }},
  {"bind.balanced", "THOLE_BALANCED", "true|false", "--balanced always",
   [](C& c, const V& v, const S& w) { c.binding.balanced = flag(v, w); }},
  {"bind.strict", "THOLE_STRICT", "true|false", "--strict always",
   [](C& c, const V& v, const S& w) { c.binding.strict = flag(v, w); }},
  {"free.ignore_processes", "THOLE_IGNORE_PROCESSES", "NAME,...", "processes that do not make a GPU busy",
   [](C& c, const V& v, const S&) { c.settings.free_policy.ignore_processes = v; }, true},
  {"free.ignore_memory", "THOLE_IGNORE_MEMORY", "SIZE", "memory in use by nobody up to which a GPU is free",
   [](C& c, const V& v, const S& w) {
     c.settings.free_policy.ignore_memory_mib = must(parse_size_mib(one(v, w)), "a size such as 64M", v, w); }},
  {"probe.patience", "THOLE_PROBE_PATIENCE", "TIME", "how long `run` waits for the driver",
   [](C& c, const V& v, const S& w) { c.settings.probe_cold = duration(v, w); }},
  {"probe.status_patience", "THOLE_STATUS_PATIENCE", "TIME", "how long `status` waits for the driver",
   [](C& c, const V& v, const S& w) { c.settings.status_patience = duration(v, w); }},
  {"", "THOLE_SYSROOT", "DIR", "read /proc, /sys and /dev below DIR (for tests)",
   [](C& c, const V& v, const S& w) { c.settings.sysroot = unless_elevated(one(v, w)); }},
  {"", "THOLE_NVML", "FILE", "another libnvidia-ml (for tests)",
   [](C& c, const V& v, const S& w) { c.settings.nvml_library = unless_elevated(one(v, w)); }},
  {"", "THOLE_CUDA", "FILE", "another libcuda (for tests)",
   [](C& c, const V& v, const S& w) { c.settings.cuda_library = unless_elevated(one(v, w)); }},
  {"", "THOLE_HWLOC", "FILE", "another libhwloc (for tests)",
   [](C& c, const V& v, const S& w) { c.settings.hwloc_library = unless_elevated(one(v, w)); }},
};
// clang-format on

// Variables thole itself gives to jobs, or reads elsewhere.
constexpr std::string_view other_variables[] = {
    "THOLE_CLAIM",      "THOLE_GPUS",     "THOLE_TASK",      "THOLE_JOB",      "THOLE_TASK_INDEX", "THOLE_RUN",
    "THOLE_SUBMIT_DIR", "THOLE_JOB_NAME", "THOLE_JOB_STATE", "THOLE_JOB_DONE", "THOLE_JOB_TASKS",  "THOLE_LIBRARY",
    "THOLE_PROGRAM",    "THOLE_MAIN_OF_POOL"};

// A file that some heed and others pass over may name the directory of claims: one GPU would have two owners. Only what is no
// file of this user's is passed over: that of who called sudo (HOME stays), or of whoever's home this is.
[[noreturn]] void refuse_unheeded(const char* what, const std::string& path, int reason, std::string cure) {
  throw Error(ErrorCode::unavailable, fmt::format("{}, and may say where claims are kept", what))
      .about(path).because(reason).hint(std::move(cure));
}

// What keeps us from reading the file: itself, or a directory on the way.
struct Closed {
  std::string path;
  struct stat status{};
  bool seen = false;

  explicit Closed(std::string file) : path(std::move(file)) {
    while (!(seen = ::stat(path.c_str(), &status) == 0) && errno == EACCES && path.rfind('/') > 0) path.resize(path.rfind('/'));
  }
  std::string opened(const char* command) const {   // "chmod a+r" and what is closed
    return fmt::format("{}{} {}", command, seen && S_ISDIR(status.st_mode) ? "x" : "", shell_quote(printable(path)));
  }
};

void refuse_unread(const std::string& path, int reason, bool site) {
  const Closed closed(path);
  if (site)
    refuse_unheeded("the site's settings cannot be read", path, reason,
                    reason == EACCES ? closed.opened("sudo chmod a+r") : "");
  const bool ours = closed.seen && closed.status.st_uid == ::geteuid();
  const bool left_by_sudo = closed.seen && closed.status.st_uid == 0 && closed.path == path;
  if (!ours && !left_by_sudo) return;
  const std::string cure = left_by_sudo && !ours ? fmt::format("sudo chown {} {}", ::geteuid(), shell_quote(printable(path)))
                           : reason == EACCES    ? closed.opened("chmod u+r")
                                                 : "or name another directory of settings: XDG_CONFIG_HOME";
  refuse_unheeded("your settings cannot be read", path, reason, cure);
}

// The link on the way to this file whose target is absent (a file system that is not mounted); "" where there is none, and so
// simply no file.
std::string dangling_link(std::string path) {
  struct stat found;
  while (::lstat(path.c_str(), &found) != 0 && errno == ENOENT && path.rfind('/') > 0) path.resize(path.rfind('/'));
  return ::lstat(path.c_str(), &found) == 0 && S_ISLNK(found.st_mode) && ::stat(path.c_str(), &found) != 0 ? path : "";
}

void refuse_dangling(Config& config, const std::string& link, bool site) {
  const std::string what = link + " is a link to what is not there";
  struct stat found;
  if (!site && (::lstat(link.c_str(), &found) != 0 || found.st_uid != ::geteuid()))
    return config.cautions.push_back(what);
  throw Error(ErrorCode::unavailable, fmt::format("{}, and may say where claims are kept", printable(what)))
      .hint(fmt::format("mount what it leads to, or {}rm {}", site ? "sudo " : "", shell_quote(printable(link))));
}

// `site`: the machine's own file, which root writes.
void apply_file(Config& config, const std::string& path, bool site) {
  struct stat found;
  const bool there = ::stat(path.c_str(), &found) == 0;
  // In a user namespace its root is anybody, and the file's owner may be root itself: he heeds it as every user does.
  if (there && ::geteuid() == 0 && found.st_uid != 0 && host::is_known_owner(found.st_uid)) {
    if (site)
      refuse_unheeded("the site's settings are not root's, so root does not heed them", path, 0,
                      "sudo chown root " + shell_quote(path));
    config.cautions.push_back(path + " is not root's, so root does not heed it");
    return;
  }
  auto text = read_file(path);
  if (!text) {
    const int reason = errno;
    if (reason == ENOENT || reason == ENOTDIR) {
      const std::string link = dangling_link(path);
      if (!link.empty()) refuse_dangling(config, link, site);
      return;
    }
    refuse_unread(path, reason, site);
    config.cautions.push_back(fmt::format("{} cannot be read: {}", path, std::strerror(reason)));
    return;
  }
  if (site && there && (found.st_mode & S_IROTH) == 0)
    config.cautions.push_back(fmt::format("not everybody can read {}: for others each command ends with 69", path));
  config.files.push_back(path);
  for (const TomlEntry& entry : read_toml(*text, path)) {
    const std::string where = fmt::format("{}:{}: {}", path, entry.line, printable(entry.key, 60));
    const auto keys = config_keys();
    auto key =
        std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) { return !k.name.empty() && k.name == entry.key; });
    if (key == keys.end()) {
      std::vector<std::string> known;
      for (const ConfigKey& k : keys)
        if (!k.name.empty()) known.emplace_back(k.name);
      auto near = nearest(entry.key, known);
      throw Error(ErrorCode::usage, fmt::format("{}: unknown key", where))
          .hint(near ? fmt::format("did you mean {}?", *near) : fmt::format("known keys: {}", join(known, ", ")));
    }
    if (key->variable.empty() && !site)
      throw Error(ErrorCode::usage, fmt::format("{}: only {} can say this", where, site_file));
    if (entry.array && !key->many) throw Error(ErrorCode::usage, fmt::format("{}: expected one value, got a list", where));
    key->set(config, entry.values, where);
  }
  const Settings& said = config.settings;
  if (site && !said.state_group.empty() && !said.state_dir.empty())
    throw Error(ErrorCode::usage, path + ": [state] group is for /run/thole, and state_dir names another directory, whose own "
                                         "mode says who may claim")
        .hint(fmt::format("take one of them out; for a group there: sudo install -d -m 750 -g {} {}",
                          shell_quote(printable(said.state_group, 60)), shell_quote(printable(said.state_dir))));
}

void apply_variable(Config& config, const std::string& name, const std::string& value) {
  const auto keys = config_keys();
  auto key = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) { return k.variable == name; });
  if (key != keys.end()) {
    if (value.empty()) return;
    Values values;
    if (key->many)
      for (std::string_view piece : split(value, ',')) values.emplace_back(trim(piece));
    else
      values.push_back(value);
    key->set(config, values, name);
  } else if (std::find(std::begin(other_variables), std::end(other_variables), name) == std::end(other_variables)) {
    config.unknown.push_back(name);
  }
}

// All of a step or nothing of it.
template <class Step>
void take_step(Config& config, OnMistake on_mistake, Step step) {
  if (on_mistake == OnMistake::refuse) return step(config);
  Config as_it_was = config;
  try {
    step(config);
  } catch (const Error& error) {
    config = std::move(as_it_was);
    config.mistakes.push_back(error);
  }
}

// PBS names a file; what it says takes the name's place. Unread, the name stays, and the allotment says so.
void read_gpu_file(plan::Environment& environment) {
  const auto named = environment.find("PBS_GPUFILE");
  if (named == environment.end() || !named->second.starts_with('/')) return;
  const std::string name = host::host_name();
  if (name.empty()) return;
  if (const auto text = read_file(named->second, 1u << 20)) named->second = plan::gpus_of_host(*text, name);
}

}  // namespace

std::span<const ConfigKey> config_keys() { return key_rows; }

plan::Environment process_environment(char** variables) {
  plan::Environment environment;
  for (char** at = variables; at && *at; ++at) {
    const std::string_view line = *at;
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) environment.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> config_files(const plan::Environment& environment) {
  std::vector<std::string> files{site_file};
  auto value = [&](const char* name) {
    auto at = environment.find(name);
    return at == environment.end() ? std::string() : at->second;
  };
  const std::string xdg = value("XDG_CONFIG_HOME"), home = value("HOME");
  if (xdg.starts_with('/'))
    files.push_back(xdg + "/thole/config.toml");  // a relative one is invalid by the XDG rules
  else if (home.starts_with('/'))
    files.push_back(home + "/.config/thole/config.toml");
  return files;
}

Settings::Settings(plan::Environment variables, uid_t user, std::string path)
    : program(std::move(path)), environment(std::move(variables)), uid(user) {}

Config read_config(const plan::Environment& environment, const std::vector<std::string>& files, const std::string& program,
                   OnMistake on_mistake) {
  Config config(Settings(environment, ::geteuid(), program));
  read_gpu_file(config.settings.environment);
  for (const std::string& file : files) {
    const bool is_the_sites = &file == &files.front();
    take_step(config, on_mistake, [&](Config& into) { apply_file(into, file, is_the_sites); });
    if (is_the_sites) config.settings.of_the_site = config.settings.free_policy;
  }
  for (auto at = environment.lower_bound("THOLE_"); at != environment.end() && at->first.starts_with("THOLE_"); ++at)
    take_step(config, on_mistake, [&](Config& into) { apply_variable(into, at->first, at->second); });
  return config;
}

}  // namespace thole::wire
