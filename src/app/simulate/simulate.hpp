// Plays recorded jobs against the rule of the claim queue, plain order, and whoever fits first, for `thole simulate`. The
// records come from a trace or from this machine's own queue; the playing is plan/simulate/simulate.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/simulate/simulate.hpp"
#include "port/job_reader.hpp"

namespace thole::app {

struct Recorded {
  std::vector<plan::PastJob> jobs;
  std::size_t too_wide = 0;                        // left out: more GPUs than the bound
};

struct TraceWish {
  std::string vc;                                  // the rows of this virtual cluster; "" = all
  unsigned max_width = 1;                          // wider jobs are left out
  std::optional<double> declared;                  // the declared time by the real one, 1 or more, or 0: nobody declares;
                                                   // absent: what the jobs declared themselves, which a trace does not tell
  double declaring_percent = 100;                  // of the jobs; the others declare nothing
};

// A trace's CSV: its first row names columns, of which arrival_s, duration_s, num_gpus and (to select) vc count. Throws
// Error(usage) that names the line; `name` stands for the file in it.
Recorded read_trace(std::string_view text, const std::string& name, const TraceWish& wish);

// The tasks of the queue that ran to their end, as it was asked for them: a task comes when its job was submitted, or could
// begin, and declares the limit of its job unless wish.declared says otherwise.
Recorded read_history(port::JobReader& jobs, const TraceWish& wish);

// The policy, then plain order, then whoever fits first; each once.
std::vector<plan::Played> compare(const Recorded& recorded, unsigned gpus, plan::QueuePolicy policy);

}  // namespace thole::app
