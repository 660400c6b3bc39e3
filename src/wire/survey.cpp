#include "wire/survey.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/own_directory.hpp"
#include "host/path.hpp"
#include "host/queue/queue_files.hpp"
#include "host/room.hpp"
#include "host/state_dir.hpp"
#include "host/store/file_check.hpp"
#include "host/store/queue_dir.hpp"
#include "host/store/turnstile.hpp"
#include "host/surroundings/surroundings.hpp"
#include "wire/wire.hpp"

namespace thole::wire {

model::Surroundings survey(const Settings& settings, const std::string& state_dir) {
  return host::read_surroundings(settings.sysroot, state_dir, user_name(settings.uid));
}

namespace {

using host::Whose;

constexpr std::uint64_t a_page = 4096;         // the list of a claim's GPUs; what else it has there can be wanting
constexpr std::uint64_t change_of_queue = 64 << 10;

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// The message on one line, and its cure.
void note(app::Directory& directory, const Error& error) {
  directory.problem = fmt::format("{}: {}", error.what(), error.object());
  if (error.sys_errno() != 0) directory.problem += fmt::format(": {}", std::strerror(error.sys_errno()));
  directory.fix = hint_of(error);
}

// Is there room at this path, on whose file system `directory` lies?
void check_room(app::Directory& directory, const std::string& path, std::uint64_t least, Whose whose = Whose::ours) {
  if (host::lacks_bytes(path, least, whose)) {
    directory.problem = fmt::format("the disk is full: {}", directory.path);
    directory.fix = "free some space there";
  } else if (host::lacks_files(path)) {
    directory.problem = fmt::format("no more files can be made: {}", directory.path);
    directory.fix = "delete files on that file system (df -i)";
  }
}

// Of a directory that is not there: what of it there is. "" for none.
std::string nearest_there(std::string path) {
  while (!path.empty() && !is_there(path) && path != "/" && path != ".") path = host::parent_of(path);
  return path;
}

// Can it be made below this, the nearest to it that is there? `what`: begins the problem.
void check_makeable(app::Directory& directory, const std::string& path, const char* what, const char* fix) {
  struct stat status;
  const bool no_directory = ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
  if (!no_directory && ::access(path.c_str(), W_OK | X_OK) == 0) return;
  directory.problem = fmt::format("{}{}: {}: {}", what, directory.path, path, std::strerror(no_directory ? ENOTDIR : errno));
  directory.fix = fix;
}

// Of one that is there. (Every command of the queue writes, or takes a lock that needs a file to write to.)
void check_writable(app::Directory& directory, std::uint64_t least, const char* others) {
  if (::access(directory.path.c_str(), W_OK) != 0) {
    directory.problem = fmt::format("cannot be written: {}: {}", directory.path, std::strerror(errno));
    directory.fix = fmt::format("make it writable, or name another: {}", others);
  } else {
    check_room(directory, directory.path, least);
  }
}

// Where the first claim makes the state directory; of the fallbacks the first that can be made.
std::string state_dir_to_be(const Wire& wire) {
  const Settings& settings = wire.settings();
  if (!settings.state_dir.empty()) return settings.state_dir;
  if (!settings.machine.empty()) return wire.paths().expected_personal().path;
  const std::vector<std::string> all = host::StatePaths{}.fallbacks;
  const auto first = std::ranges::find_if(
      all, [](const std::string& path) { return ::access(host::parent_of(path).c_str(), W_OK) == 0; });
  return first == all.end() ? "" : *first;
}

// One that is there does without room, but for notes: nothing but its own nodes are written at a claim.
void check_first_claim(app::Directories& all, Wire& wire) {
  if (wire.find_store()) return;
  all.claims.path = state_dir_to_be(wire);
  const std::string there = nearest_there(all.claims.path);
  if (there.empty()) return;
  if (!wire.settings().state_dir.empty()) check_makeable(all.claims, there, "", "name another: THOLE_STATE_DIR, state_dir");
  if (all.claims.problem.empty()) check_room(all.claims, there, a_page, Whose::everybodys);
}

}  // namespace

std::optional<app::Directory> absent_state_dir(Wire& wire) {
  if (wire.settings().state_dir.empty() || is_there(wire.settings().state_dir)) return std::nullopt;
  app::Directories all;
  check_first_claim(all, wire);
  return all.claims;
}

app::Directories directories(Wire& wire) {
  app::Directories all;
  try {
    check_first_claim(all, wire);
  } catch (const Error&) {                       // told by the overview
  }
  try {
    const host::ExpectedDirectory personal = wire.paths().expected_personal();
    all.personal.path = personal.path;
    all.personal.taken = personal.taken;
    all.personal.there = is_there(all.personal.path);
    if (all.personal.there) {
      check_writable(all.personal, a_page, "THOLE_PERSONAL_DIR, personal_dir");
    } else {
      const std::string there = nearest_there(all.personal.path);
      check_makeable(all.personal, there, "cannot be made: ", "name another: THOLE_PERSONAL_DIR, personal_dir");
      if (all.personal.problem.empty()) check_room(all.personal, there, a_page);
    }
    all.caches = all.personal.path + " (topology, what the driver last said)";
  } catch (const Error& error) {
    note(all.personal, error);
  }
  try {
    const host::QueuePaths paths = wire.queue_paths();
    const host::QueueDir queue = host::expected_queue_dir(paths);
    all.queue.path = queue.path;
    all.queue.taken = queue.taken;
    all.queue.there = is_there(queue.path);
    if (all.queue.there) check_writable(all.queue, change_of_queue, "--queue-dir");
    else check_makeable(all.queue, nearest_there(queue.path), "cannot be made: ", "name another: THOLE_QUEUE_DIR, queue.dir");
    if (all.queue.there) all.queue_kept = host::turnstile_kept(queue.path, Seconds{2}).value_or("");
    if (all.queue.there && all.queue.problem.empty()) host::check_queue_file(queue.path);
    if (all.queue.there && all.queue.problem.empty())
      for (const Error& error : host::QueueFiles(queue.path).troubles()) note(all.queue_files.emplace_back(), error);
    all.logs = queue.path + "/logs";
    all.queue_cautions = queue.cautions;
    if (all.queue.there && all.queue.problem.empty() && host::lacks_bytes(queue.path, change_of_queue, Whose::everybodys))
      all.queue_cautions.push_back("its disk is full for everybody but root, who writes into what is reserved for him");
    all.other_queues = host::other_queues(paths);
  } catch (const Error& error) {
    note(all.queue, error);
  }
  all.crowds_of_names = host::crowds_of_names();
  return all;
}

}  // namespace thole::wire
