// Under which boot of the machine something was said: answered here alone.
//
// How this works. The kernel has an id for the time since it started, which all of the machine see. A container may be shown
// one of its own instead (systemd-nspawn and LXC mount a file over it), a new one whenever it starts. Two ids of the kernel are
// of one boot or of two. Any other that is not ours says neither: there is a boot only where something proves it. What was
// said by a lane of which something lives was said under this one; where a command started later after its boot than it is now
// after ours, that was another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "model/lane_record.hpp"

namespace thole::model {

struct BootId {
  std::string id;
  bool kernels_own = true;                   // false: a container's

  bool operator==(const BootId&) const = default;
};

// As the queue's file keeps it.
std::string to_text(const BootId& boot);
BootId boot_from_text(std::string_view text);

// As a lane's record keeps it. One of an earlier build does not say whose it is, and counts as the kernel's.
void put_boot(LaneRecord& record, const BootId& boot);
BootId boot_of(const LaneRecord& record);

enum class Boot { this_one, another, untold };
inline constexpr const char* why_untold =
    "a container has a boot id of its own, so that it cannot be told whether the machine was booted since";
inline constexpr const char* who_can_tell = "any thole command where the queue's tasks were started";

class Boots {
 public:
  explicit Boots(BootId now) : now_(std::move(now)) {}

  void learn(const LaneRecord& record, bool something_of_it_lives);
  Boot of(const BootId& said) const;
  const BootId& now() const { return now_; }

 private:
  BootId now_;
  std::set<std::string> this_one_, others_;  // by what was learnt
};

// Why a task counts as running of which it cannot be told whether it has begun under this boot: that ends with the boot.
std::string reason_of_untold(const BootId& boot);
BootId boot_of_untold(std::string_view reason);

// How the command in this bay is known when its lane is dead: by nothing under another boot. Where that cannot be told, a
// number alone may be somebody else's.
struct NotedCommand {
  std::int32_t pid = 0;
  ProcessIdentity identity{};
};
NotedCommand noted_command(const LaneRecord& record, std::size_t bay, Boot boot);

}  // namespace thole::model
