// Everything an invocation is told from outside, read once at the edge: files, THOLE_* variables, flags (the later wins).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/request.hpp"
#include "plan/place/select.hpp"

namespace thole::wire {

struct Settings {
  // Of this process and no other: what is not said here comes from the same source for the program and the library.
  Settings(plan::Environment environment, uid_t uid, std::string program);

  // The directories are as they were said; those of a Wire are absolute.
  std::string machine;             // --machine, THOLE_MACHINE: a simulated machine's file or name; "" = this machine
  std::string state_dir;           // --state-dir, THOLE_STATE_DIR: "" = the machine's own
  std::string personal_dir;        // THOLE_PERSONAL_DIR: "" = /tmp/thole-UID (directory_paths.hpp)
  std::string state_group;         // [state] group of the site's file: only its members may claim; "" = everybody
  std::string queue_dir;           // --queue-dir, THOLE_QUEUE_DIR: "" = the user's own of this machine
  Seconds queue_keep{90 * 24 * 3600};  // ended jobs and their logs are kept this long
  std::optional<unsigned> cpu_tasks;   // tasks without GPUs at once; absent = as many as there are CPUs
  std::string sysroot;             // THOLE_SYSROOT: prefix of every /proc, /sys and /dev read; ignored with elevated rights
  std::string nvml_library;        // THOLE_NVML: absolute path of another libnvidia-ml; ignored with elevated rights
  std::string hwloc_library;       // THOLE_HWLOC: absolute path of another libhwloc; ignored with elevated rights
  std::string cuda_library;        // THOLE_CUDA: absolute path of another libcuda; ignored with elevated rights
  std::string machines_dir;        // THOLE_MACHINES: where shipped machines are looked for first
  std::string program;             // this program's own path, re-executed as the probe
  plan::Environment environment;   // the caller's variables as they were
  model::FreePolicy free_policy;   // [free] ignore_processes, ignore_memory
  model::FreePolicy of_the_site;   // the same, as the site's file says it: what others are judged by
  Millis probe_cold{10'000};       // patience with the driver when it was not asked lately
  Millis status_patience{4'000};   // of status, which answers within 5 s whatever the driver does
  uid_t uid;
};

}  // namespace thole::wire
