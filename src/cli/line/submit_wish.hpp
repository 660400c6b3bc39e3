// From the words of `thole submit` to what is asked for: the line itself, what a script says in its #THOLE lines, what a job
// file says. Each is a line of words to the one parser; what stands on the command line is read last, so it wins.
#pragma once

#include <string>
#include <vector>

#include "app/queue/submit.hpp"
#include "cli/context.hpp"
#include "model/job.hpp"

namespace thole::cli {

// What `thole submit` is told by its own options.
struct SubmitOptions {
  model::JobSpec spec;                           // name, tags, retry, …: what one option says by itself
  model::JobTerms terms;
  std::vector<std::string> grid, env, after;     // as typed
  std::string array, csv, lines, file, begin, directory;
  bool if_absent = false;
  bool snapshot = false;
};

std::vector<app::SubmitWish> submit_wishes(const Context& context);

}  // namespace thole::cli
