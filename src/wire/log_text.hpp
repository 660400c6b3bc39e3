// The text of tasks, for `thole logs`.
#pragma once

#include "host/queue/log_text.hpp"

namespace thole::wire {

using host::LogText;

}  // namespace thole::wire
