// Stopping as Ctrl-Z stops a program, for those who look at the signal first and stop later.
#pragma once

namespace thole {

bool is_pending(int signal);   // for this process or thread, which blocks it

// Stops this process by `signal`, as that would have if it were not blocked; but not where a CONT has come since, which counts
// then as the one that lets it go on. CONT is blocked, too. False when nothing stopped us (an orphaned process group).
bool stop_self(int signal);

}  // namespace thole
