// Waking whoever reads a FIFO.
#pragma once

namespace thole {

// One byte into a FIFO that is open for writing, without waiting. One that is full is as good. False where nobody reads it;
// that its reader may go between its opening and this does not end us by SIGPIPE, as a plain write would.
bool poke(int fifo);

}  // namespace thole
