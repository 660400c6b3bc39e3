#include "model/boot.hpp"

#include <algorithm>
#include <optional>

#include "base/machine_clocks.hpp"

namespace thole::model {
namespace {

constexpr std::string_view of_container = "*";
constexpr std::string_view perhaps_begun = "perhaps begun, under the boot ";

// The last byte of LaneRecord::boot, behind the id and its end: an earlier build reads only that, and makes this 0.
constexpr char says_kernels = 'k', says_containers = 'c';

constexpr Millis clocks_differ_at_most{1'000};   // by ticks

bool started_later_than_now(const LaneRecord& record) {
  const std::optional<Millis> now = known_since_boot();
  if (!now) return false;
  for (std::size_t bay = 0; bay < lane_bays; ++bay)
    if (of_ticks(command_of(record, bay).start_ticks) > *now + clocks_differ_at_most) return true;
  return false;
}

}  // namespace

std::string to_text(const BootId& boot) { return boot.kernels_own ? boot.id : boot.id + std::string(of_container); }

BootId boot_from_text(std::string_view text) {
  const bool kernels_own = !text.ends_with(of_container);
  if (!kernels_own) text.remove_suffix(of_container.size());
  return {std::string(text), kernels_own};
}

void put_boot(LaneRecord& record, const BootId& boot) {
  record.boot.fill('\0');
  std::copy_n(boot.id.begin(), std::min(boot.id.size(), record.boot.size() - 2), record.boot.begin());
  record.boot.back() = boot.kernels_own ? says_kernels : says_containers;
}

BootId boot_of(const LaneRecord& record) {
  const auto end = std::ranges::find(record.boot, '\0');
  return {std::string(record.boot.begin(), end), record.boot.back() != says_containers};
}

void Boots::learn(const LaneRecord& record, bool something_of_it_lives) {
  if (record.magic != lane_magic) return;
  const BootId said = boot_of(record);
  if (something_of_it_lives) this_one_.insert(said.id);
  else if (started_later_than_now(record)) others_.insert(said.id);
}

Boot Boots::of(const BootId& said) const {
  if (said == now_ && now_.kernels_own) return Boot::this_one;
  if (this_one_.contains(said.id)) return Boot::this_one;
  if (others_.contains(said.id)) return Boot::another;
  if (said.id == now_.id) return Boot::this_one;
  return said.kernels_own && now_.kernels_own ? Boot::another : Boot::untold;
}

std::string reason_of_untold(const BootId& boot) { return std::string(perhaps_begun) + to_text(boot); }

BootId boot_of_untold(std::string_view reason) {
  return boot_from_text(reason.substr(std::min(perhaps_begun.size(), reason.size())));
}

NotedCommand noted_command(const LaneRecord& record, std::size_t bay, Boot boot) {
  NotedCommand noted{record.bays[bay].pid, command_of(record, bay)};
  if (boot == Boot::this_one) return noted;
  noted.identity.number = 0;
  return boot == Boot::untold && noted.identity.start_ticks != 0 ? noted : NotedCommand{};
}

}  // namespace thole::model
