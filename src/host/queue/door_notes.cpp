// What lies in the queue's directory for whoever only looks: what lanes and the runner have noted there.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/stream.hpp"
#include "host/queue/local_door.hpp"
#include "host/room.hpp"
#include "model/boot.hpp"
#include "model/lane_record.hpp"

namespace thole::host {
namespace {

constexpr off_t log_tail = 64 * 1024;
constexpr std::uint64_t least_room = 64 * 1024;  // a change of the store takes some pages of its log

}  // namespace

std::optional<port::NotedEnd> LocalDoor::noted_end(const model::Task& task) {
  if (task.lane >= model::lane_of_untold) return std::nullopt;
  const port::SeenRecord record = files_.see_record(static_cast<unsigned>(task.lane), false);
  if (!record || record->magic != model::lane_magic) return std::nullopt;
  for (const model::LaneBay& bay : record->bays) {
    if (bay.phase.load() != model::TaskPhase::ended || bay.seal != model::end_seal(bay)) continue;
    if (bay.job != task.job || bay.task != task.index || bay.runs != task.runs) continue;
    port::NotedEnd end;
    end.at = WallTime{Millis{bay.ended_ms}};
    if (bay.exit_code >= 0) end.exit_code = bay.exit_code;
    if (bay.signal >= 0) end.signal = bay.signal;
    return end;
  }
  return std::nullopt;
}

std::string LocalDoor::last_said() const {
  const Fd log = open_at(AT_FDCWD, files_.runner_log().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!log) return "";
  const off_t end = std::max<off_t>(::lseek(log.get(), 0, SEEK_END), 0);
  if (::lseek(log.get(), std::max<off_t>(end - log_tail, 0), SEEK_SET) < 0) return "";
  return read_all(log.get(), 2 * static_cast<std::size_t>(log_tail)).value_or("");
}

// Without an inode to be had no first lane can be made; one that is there is used
// again.
std::string LocalDoor::full_disk() const {
  const std::string& directory = files_.directory();
  const bool no_room = lacks_bytes(directory, least_room, Whose::ours);
  const bool no_file = lacks_files(directory) && files_.lanes().empty();
  return no_room || no_file ? directory : "";
}

// An ext4 that has become so by an error says it of nothing but what is opened to be written.
std::string LocalDoor::read_only_disk() const {
  const Fd file = open_at(AT_FDCWD, (files_.directory() + "/turnstile").c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  return !file && errno == EROFS ? files_.directory() : "";
}

}  // namespace thole::host
