#include "wire/survey.hpp"

#include <unistd.h>

#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/store/queue_dir.hpp"
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
  directory.fix = error.hint();
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
    all.logs = queue.path + "/logs";
    all.queue_cautions = queue.cautions;
    all.other_queues = host::other_queues(places);
  } catch (const Error& error) {
    note(all.queue, error);
  }
  return all;
}

}  // namespace thole::wire
