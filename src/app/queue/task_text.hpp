// What a task's log says before and after its output, for people: who ran where, and how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "port/task_keeper.hpp"

namespace thole::app {

struct TaskHeader {
  std::string name;                              // "17", "17.3"
  unsigned runs = 1;
  std::vector<std::string> argv;
  std::string directory, host;
  std::vector<std::string> gpus;                 // "2 (NVIDIA A100-SXM4-80GB)"
  std::string cpus;                              // "0-15"; "" = not bound
  WallTime started{};
};
std::string header_text(const TaskHeader& header);

struct TaskFooter {
  const port::TaskOver& over;
  Millis ran{};
  WallTime ended{};
  std::optional<std::uint64_t> peak_gpu_mib;     // of its largest process on one GPU
  std::string reason;                            // "time limit"; "" = the status says it all
  std::string next;                              // "runs again at …"; "" = it does not
};
std::string footer_text(const TaskFooter& footer);

// Of what is left behind, where nobody of it can be named.
inline constexpr const char* nobody_read = "(processes that end and begin faster than they are read)";

// That the kernel does not let us signal these ("pid command").
std::string out_of_reach_text(const std::vector<std::string>& processes);
std::string spared_text(const std::vector<std::string>& processes);

// "exit status 3", "killed by signal 9 (Killed), core dumped"
std::string ending_text(const port::Ended& ended);

}  // namespace thole::app
