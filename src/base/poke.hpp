// Waking whoever reads a FIFO.
#pragma once

namespace thole {

// One byte into a FIFO that is open for writing, without waiting. One that is full is as good. False, with errno, where
// nobody reads it (EPIPE) or it cannot be written; that its reader may go between its opening and this does not end us by
// SIGPIPE, as a plain write would.
inline constexpr char look_again = '!';
bool poke(int fifo, char what = look_again);

// What a runner is told so (`wake`); any other byte makes it look again, as this one does in earlier builds.
inline constexpr char ask_to_leave = 'L';

// Takes what there is, as drain() does (base/stream.hpp).
struct Poked {
  bool at_all = false;
  bool to_leave = false;                         // ask_to_leave was among it
};
Poked pokes_of(int fifo);

}  // namespace thole
