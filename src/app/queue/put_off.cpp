#include "app/queue/put_off.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/printable_lines.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

constexpr std::string_view again = ": asked for again at ", of_lane = "a lane of job ", lane_ended = " ended: ";
constexpr std::string_view runner_kept = "no job can begin: ";
constexpr std::string_view unstored = ": cannot be stored now, and is tried again: ";
constexpr Seconds longer_than_pauses{60};        // between the tries of a lane
constexpr std::string_view anew = "another runner begins, and asks at once for what was put off";

// "12: …" -> 12, and what follows the separator.
std::optional<model::JobId> job_before(std::string_view& text, std::string_view separator) {
  const std::size_t end = text.find(separator);
  if (end == std::string_view::npos) return std::nullopt;
  const auto job = parse_u64(text.substr(0, end));
  if (job) text.remove_prefix(end + separator.size());
  return job;
}

std::string_view without_time(std::string_view line) { return trim(line.substr(std::min(line.find(' '), line.size()))); }

}  // namespace

std::string put_off_text(model::JobId job, WallTime until) {
  return fmt::format("job {}{}{}", job, again, format_iso(std::chrono::ceil<Seconds>(until)));
}

std::string lane_ended_text(model::JobId job, std::string_view why) {
  return fmt::format("{}{}{}{}", of_lane, job, lane_ended, in_one_line(why));
}

std::string runner_kept_text(std::string_view why) { return fmt::format("{}{}", runner_kept, in_one_line(why)); }

std::string runner_kept_in(std::string_view log) {
  std::string_view why;
  for (std::string_view line : split_lines(log)) {
    line = without_time(line);
    if (line.starts_with(runner_kept)) why = line.substr(runner_kept.size());
    if (line == runner_goes_on || line == anew) why = {};
  }
  return std::string(why);
}

std::string unstored_text(model::JobId job, std::string_view why) {
  return fmt::format("job {}{}{}", job, unstored, in_one_line(why));
}

std::string unstored_in(std::string_view log, WallTime now) {
  std::string_view last;
  for (const std::string_view line : split_lines(log))
    if (without_time(line).starts_with("job ") && line.find(unstored) != std::string_view::npos) last = line;
  const auto said = parse_iso(last.substr(0, last.find(' ')));
  return said && now - *said < longer_than_pauses ? std::string(without_time(last)) : "";
}

void ask_anew(const port::QueueFolder& folder, WallTime now, const std::function<void(const std::string&)>& say) {
  const std::string log = folder.last_said();
  if (!put_off_in(log, now).empty() || !runner_kept_in(log).empty()) say(std::string(anew));
}

std::vector<PutOff> put_off_in(std::string_view log, WallTime now) {
  std::map<model::JobId, std::string> said;
  std::map<model::JobId, PutOff> last;
  for (std::string_view line : split_lines(log)) {
    line = without_time(line);
    if (line == anew) last.clear();
    const bool is_lanes = line.starts_with(of_lane);
    line.remove_prefix(std::min(line.find("job ") + std::string_view("job ").size(), line.size()));
    if (const auto job = is_lanes ? job_before(line, lane_ended) : job_before(line, again)) {
      if (is_lanes) said[*job] = std::string(line);
      else if (const auto until = parse_iso(line)) last[*job] = {*job, *until, std::exchange(said[*job], {})};
    }
  }
  std::vector<PutOff> all;
  for (auto& [job, one] : last)
    if (one.until > now) all.push_back(std::move(one));
  return all;
}

}  // namespace thole::app
