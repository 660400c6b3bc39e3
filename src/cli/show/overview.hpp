// One look at the machine for a command that shows it.
#pragma once

#include "app/show/overview.hpp"
#include "cli/context.hpp"
#include "wire/overview.hpp"

namespace thole::cli {

app::Overview look_over(Context& context, wire::IfUnknown if_unknown = wire::IfUnknown::refuse);

// Of files and the last answers alone: asks no driver, so it is quick and cannot hang.
app::Overview glance_over(Context& context);

}  // namespace thole::cli
