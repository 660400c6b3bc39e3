// What another user's keeper sends along with his answer.
//
// Only root asks such a one. A descriptor of his may be of a file system whose program he has written: who closes it, also by
// ending, waits for that program's answer, and not even KILL ends who waits. So a process of its own receives them and looks;
// where it hangs, it hangs alone, and what it hands on is of the claim.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "port/claim_control.hpp"

namespace thole::host {

// Where the keeper's answer then comes from, as he would give it: with descriptors that `check` has not thrown of, or "no " and
// why. Throws Error where no process can be had.
Fd received_elsewhere(int keeper, Millis patience, const port::CheckLocks& check);

}  // namespace thole::host
