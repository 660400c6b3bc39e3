#include "host/claims/watches.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace thole::host {
namespace {

bool hung_up(int fd) {
  pollfd one{fd, 0, 0};
  return ::poll(&one, 1, 0) == 1;
}

}  // namespace

Watches::Seen Watches::add(const std::function<Fd(int)>& open, port::Wake kind) {
  Fd watch = open(O_RDONLY);
  if (!watch) return Seen::free;
  // Twice, because the first time the lock may go between trial and poll.
  for (int i = 0; i < 2; ++i) {
    Fd trial = open(O_RDWR);
    if (!trial || ::flock(trial.get(), LOCK_EX | LOCK_NB) == 0) return Seen::free;
    trial.reset();
    if (hung_up(watch.get())) continue;
    watches_.push_back({std::move(watch), kind});
    return Seen::held;
  }
  // Locked through a description that cannot write (as flock(1) does): it would hang up for ever and make us spin.
  return Seen::held;
}

Watches::Seen Watches::add_turn(const ClaimDirectory& directory, unsigned index) {
  return add([&](int flags) { return directory.open_turn(index, flags); }, port::Wake::turn);
}

Watches::Seen Watches::add_gpu(const ClaimDirectory& directory, unsigned slot) {
  return add([&](int flags) { return directory.open_gpu(slot, flags); }, port::Wake::release);
}

Watches::Seen Watches::add_share(const ClaimDirectory& directory, unsigned slot, unsigned berth) {
  return add([&](int flags) { return directory.open_share(slot, berth, flags); }, port::Wake::release);
}

void Watches::append_to(std::vector<pollfd>& polled) const {
  for (const Watch& watch : watches_) polled.push_back({watch.fd.get(), 0, 0});
}

bool Watches::any_event(Millis patience) const {
  std::vector<pollfd> polled;
  append_to(polled);
  return ::poll(polled.data(), polled.size(), static_cast<int>(patience.count())) > 0;
}

}  // namespace thole::host
