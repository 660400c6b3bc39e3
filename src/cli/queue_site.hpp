// What the queue's verbs get from an invocation.
#pragma once

#include "app/job_actions.hpp"
#include "app/submit.hpp"
#include "cli/context.hpp"

namespace thole::cli {

app::Queue queue_of(Context& context);           // made when there is none
port::JobStore* find_queue(Context& context);    // for looking only: null where nothing was ever submitted
app::Queue existing_queue(Context& context);     // throws Error(usage) where nothing was ever submitted
std::string queue_directory(Context& context);   // made when there is none
app::SubmitSite submit_site(Context& context);

}  // namespace thole::cli
