#include "plan/job/job_log.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::plan {

namespace {

constexpr std::uint64_t most_tasks_in_log = 100'000'000;  // a forged number must not cost memory

}  // namespace

void write_job_log(std::string& text, const JobLogLine& line) {
  const auto started = line.started.time_since_epoch().count();
  fmt::format_to(std::back_inserter(text), "{}\t:\t{}.{:03}\t{:10.3f}\t0\t{}\t{}\t{}\t", line.number, started / 1000,
                 started % 1000, std::chrono::duration<double>(line.took).count(), line.bytes, line.exit_code, line.signal);
  const std::size_t command = text.size();
  text += line.command;
  std::replace(text.begin() + static_cast<std::ptrdiff_t>(command), text.end(), '\n', '\0');  // as GNU parallel does
  text += '\n';
}

std::vector<bool> tasks_done(std::string_view log, Resume resume) {
  std::vector<bool> done;
  if (resume == Resume::none) return done;
  for (std::string_view line : split_lines(log)) {
    const auto cells = split(line, '\t');
    if (cells.size() < 9) continue;
    const auto number = parse_u64(cells[0]);
    if (!number || *number == 0 || *number > most_tasks_in_log) continue;
    if (resume == Resume::succeeded && (cells[6] != "0" || cells[7] != "0")) continue;
    if (done.size() <= *number) done.resize(*number + 1);
    done[*number] = true;
  }
  return done;
}

}  // namespace thole::plan
