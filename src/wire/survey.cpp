#include "wire/survey.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/queue/queue_files.hpp"
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

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// The message on one line, and its cure.
void note(app::Directory& directory, const Error& error) {
  directory.problem = fmt::format("{}: {}", error.what(), error.object());
  if (error.sys_errno() != 0) directory.problem += fmt::format(": {}", std::strerror(error.sys_errno()));
  directory.fix = hint_of(error);
}

// Every command of the queue writes, or takes a lock that needs a file to write to.
void check_writable(app::Directory& queue) {
  constexpr unsigned long long least = 64 << 10;
  struct statvfs space;
  if (::access(queue.path.c_str(), W_OK) != 0) {
    queue.problem = fmt::format("cannot be written: {}: {}", queue.path, std::strerror(errno));
    queue.fix = "make it writable, or name another: --queue-dir";
  } else if (::statvfs(queue.path.c_str(), &space) == 0 && space.f_blocks != 0 && space.f_bavail * space.f_frsize < least) {
    queue.problem = fmt::format("the disk is full: {}", queue.path);
    queue.fix = "free some space there";
  } else if (::statvfs(queue.path.c_str(), &space) == 0 && space.f_files != 0 && space.f_favail == 0) {
    queue.problem = fmt::format("no more files can be made: {}", queue.path);
    queue.fix = "delete files on that file system (df -i)";
  }
}

}  // namespace

app::Directories directories(Wire& wire) {
  app::Directories all;
  try {
    all.personal.path = wire.places().expected_personal();
    all.personal.there = is_there(all.personal.path);
    all.caches = all.personal.path + " (topology, what the driver last said)";
  } catch (const Error& error) {
    note(all.personal, error);
  }
  try {
    const host::QueuePlaces places = wire.queue_places();
    const host::QueueDir queue = host::expected_queue_dir(places);
    all.queue.path = queue.path;
    all.queue.there = is_there(queue.path);
    if (all.queue.there) check_writable(all.queue);
    if (all.queue.there) all.queue_kept = host::turnstile_kept(queue.path, Seconds{2}).value_or("");
    if (all.queue.there && all.queue.problem.empty()) host::check_queue_file(queue.path);
    if (all.queue.there && all.queue.problem.empty())
      for (const Error& error : host::QueueFiles(queue.path).troubles()) note(all.queue_files.emplace_back(), error);
    all.logs = queue.path + "/logs";
    all.queue_cautions = queue.cautions;
    all.other_queues = host::other_queues(places);
  } catch (const Error& error) {
    note(all.queue, error);
  }
  return all;
}

}  // namespace thole::wire
