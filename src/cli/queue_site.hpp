// What the queue's verbs get from an invocation.
#pragma once

#include "app/queue/going_on.hpp"
#include "app/queue/job_actions.hpp"
#include "app/queue/submit.hpp"
#include "cli/context.hpp"

namespace thole::cli {

app::Queue queue_of(Context& context);           // made when there is none
port::JobStore* find_queue(Context& context);    // for looking only: null where nothing was ever submitted

// Who finds none of his jobs may have submitted them under another host name, or with another HOME.
void tell_of_other_queues(Context& context);
Error nothing_submitted(Context& context);
app::Queue existing_queue(Context& context);     // throws Error(usage) where nothing was ever submitted
app::GoingOn going_on(Context& context);         // of the queue there is; warns of what keeps its work from going on
void keep_going(Context& context);               // the same once, for what only looks; also says where that may be old
std::string queue_directory(Context& context);   // made when there is none
app::SubmitSite submit_site(Context& context);

}  // namespace thole::cli
