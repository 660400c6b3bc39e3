// From the words of `thole submit` to what is asked for: the line itself, what a script says in its #THOLE lines, what a job
// file says. Each is a line of words to the one parser; what stands on the command line is read last, so it wins.
#pragma once

#include <vector>

#include "app/queue/submit.hpp"
#include "cli/context.hpp"

namespace thole::cli {

std::vector<app::SubmitWish> submit_wishes(const Context& context);

}  // namespace thole::cli
