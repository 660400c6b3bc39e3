#include "host/process/left_to_us.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"
#include "host/process/open_files.hpp"
#include "host/process/shown_environment.hpp"

namespace thole::host {
namespace {

constexpr std::uint64_t flag_exiting = 0x4;      // PF_EXITING of the kernel: its memory may be gone, its files are not yet

bool is_of_our_user(const ProcessStat& process) {
  if (process.hidden) return ::kill(process.pid, 0) == 0;
  const auto ids = user_ids_of(process.pid);
  return !ids || ids->real == ::geteuid() || ids->effective == ::geteuid();
}

bool is_hash(std::string_view word) {
  return word.size() == 16 && word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

bool is_within(const std::string& shown, const std::string& claim) {
  return !claim.empty() && (shown == claim || shown.starts_with(claim + "/"));
}

bool is_mark_of_a_task(const std::string& word) {
  const auto at = word.find('@');
  if (at == std::string::npos) return false;
  const auto parts = split(std::string_view(word).substr(0, at), '.');
  if (parts.size() != 4 || !is_hash(parts[3])) return false;
  const auto is_number = [](std::string_view part) { return parse_u64(part).has_value(); };
  if (!std::all_of(parts.begin(), parts.begin() + 3, is_number)) return false;
  std::string_view rest = std::string_view(word).substr(at + 1);
  if (rest.size() > 17 && rest[16] == '@' && is_hash(rest.substr(0, 16))) rest.remove_prefix(17);
  return rest.starts_with('/');
}

std::string_view lane_of_mark(std::string_view mark) { return mark.substr(std::min(mark.find('@'), mark.size())); }

bool is_of_a_lost_lane(pid_t pid, std::span<const std::string> claims, std::string_view lane) {
  if (!proc_numbers_are_ours()) return false;
  if (keeps_lane_lock(pid)) return true;
  if (keeps_a_lock_of_ours(pid)) return false;   // whatever mark it has taken on
  const ShownEnvironment shown = environment_of(pid);
  const std::string mark = shown.word("THOLE_TASK=");
  const char* ours = std::getenv("THOLE_TASK");
  if (!is_mark_of_a_task(mark)) return false;
  if (!lane.empty()) return lane_of_mark(mark) != lane;
  if (ours && mark == ours) return false;
  const std::string its = shown.word("THOLE_CLAIM=");
  return std::ranges::none_of(claims, [&](const std::string& claim) { return is_within(its, claim); });
}

Origin origin_of(const ProcessStat& child, std::uint64_t since) {
  const ShownEnvironment shown = child.hidden ? ShownEnvironment{"", EACCES} : environment_of(child.pid);
  Origin origin{shown.word("THOLE_CLAIM="), false};
  const bool untold = shown.is_untold() || (shown.words.empty() && (child.flags & flag_exiting) != 0);
  origin.may_be_ours = untold && (child.hidden || child.start_ticks >= since) && is_of_our_user(child);
  return origin;
}

}  // namespace thole::host
