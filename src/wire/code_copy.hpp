// Copies of code for jobs, for `thole submit --snapshot`.
#pragma once

#include "host/queue/code_copy.hpp"

namespace thole::wire {

using host::CodeCopy;
using host::copy_code;
using host::give_code;
using host::remove_code;

}  // namespace thole::wire
