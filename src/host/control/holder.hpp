// The holder: the process behind a claim without a command.
//
// How it works. The holder takes the locks itself, since the kernel names the taker in /proc/locks. So it is forked first, in a
// session of its own, and does the waiting; the caller stays at the other end of a socket pair. Ctrl-C there (or the caller's
// death) makes the holder's end readable, and the wait is given up. When the claim is made the holder sends the message, the
// caller tells it (prints the id) and confirms, and only then has it become a claim on its own: one that nobody was told of is
// given back, and so is one whose caller does not confirm in time. A caller that is stopped (Ctrl-Z) cannot be seen to be by
// others, who know the holder alone: the holder looks at it before it claims, and leaves the line as long. Before the message
// the holder drops everything it shares with the caller: terminal, standard streams, working directory, and each descriptor it
// did not open itself (those lack CLOEXEC), or `$(thole claim)` would wait for it.
#pragma once

#include <functional>
#include <string>

#include "host/process/signals.hpp"
#include "port/claim_control.hpp"

namespace thole::host {

inline constexpr const char* holder_name = "thole-holder";   // of the process, in /proc
inline constexpr const char* holder_for_shell = "thole-holder-sh";   // what the process it looks at starts is inside

// port::ClaimControl::hold
std::string start_holder(const port::HoldSpec& spec, const InheritedSignals& inherited,
                         const std::function<port::ToHold(const port::HoldCaller&)>& acquire);

}  // namespace thole::host
