// The log of tasks that GNU parallel writes with --joblog: read and written so that either program can go on where the other
// stopped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"

namespace thole::plan {

struct JobLogLine {
  std::uint64_t number = 0;            // Seq
  WallTime started{};
  std::chrono::nanoseconds took{};
  std::uint64_t bytes = 0;             // Receive: what it wrote to stdout
  int exit_code = 0;                   // -1: it was ended by its time limit
  int signal = 0;
  std::string_view command;
};

inline constexpr std::string_view job_log_head = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";

// Appends one line.
void write_job_log(std::string& text, const JobLogLine& line);

// Which tasks run again: all; not those in the log (--resume); not those that succeeded (--resume-failed).
enum class Resume { none, done, succeeded };

// By number, from a whole log. Lines that are none (torn by a crash) count for nothing.
std::vector<bool> tasks_done(std::string_view log, Resume resume);

}  // namespace thole::plan
