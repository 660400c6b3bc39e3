// The configuration: the files', the environment's, and over them what stands on the line.
#pragma once

#include "cli/line/invocation.hpp"
#include "wire/config.hpp"

namespace thole::cli {

// Throws Error(usage) on a mistake in it, unless the verb goes on anyway.
wire::Config configuration(const Invocation& invocation);

}  // namespace thole::cli
