// Signals as the shell names them. (glibc's own names, sigabbrev_np, came with 2.32; the wheel is to run with 2.28.)
#pragma once

#include <string_view>

namespace thole {

std::string_view signal_name(int signal);  // "KILL"; "" for a real-time signal, and for what is none

}  // namespace thole
