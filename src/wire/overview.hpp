// Who has what, of what an observer has seen last: for commands and callers that show it.
#pragma once

#include "app/show/overview.hpp"
#include "wire/wire.hpp"

namespace thole::wire {

// Where nobody can tell whose claims those are (host/user_namespace.hpp): what says which GPUs are free refuses; what is about
// other things tells the problem.
enum class IfUnknown { refuse, tell };

// Makes no directory; claims that cannot be read are a problem told in the overview, no exception: the GPUs are worth seeing
// even where nothing can be claimed.
app::Overview overview_of(Wire& wire, const app::Observer& observer, IfUnknown if_unknown = IfUnknown::refuse);

}  // namespace thole::wire
