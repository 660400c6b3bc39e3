// The directories inside claims: a claim is a smaller machine, with a state directory of its own for those who claim within it.
//
// How this works. The first claim inside a claim makes `<personal root>/<claim id>` (0700, nodes on demand); a claim by itself
// makes nothing. The file `outer` in it names the state directory in which the claim itself is held. So whoever opens an inner
// directory can sweep the others that are dead: those of the same outer directory in which no live note tells of their claim,
// and those whose outer directory is gone. A directory in which nobody has claimed has no such file, only its
// keeper's socket (control/door.hpp). The keeper removes it, and after a killed keeper the next one whose own claim ends, or
// that opens an inner directory: each keeps a shared flock on its directory, by which a killed one is known. So does who makes
// an inner one until it is whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "host/claims/notes.hpp"
#include "host/claims/store.hpp"

namespace thole::host {

// Throws Error(usage) when the id is not one component of plain characters.
StateLocation inner_location(const ClaimStoreOptions& options, const std::string& claim_id);

// Nobody else deletes a personal directory while this is kept: by who claims in it, from alloc on until the claim holds it.
// Asked afterwards whether it is still there. Empty for other directories, which no sweep takes.
Fd keep_from_sweeps(const StateDir& directory);

// The directory of a claim that is held in `outer`, made where there is none. While `making` is kept no sweep takes it for one
// that its maker has left.
struct InnerDirectory {
  StateDir directory;
  Fd making;
};
InnerDirectory open_inner_directory(const StateLocation& location, const std::string& outer);

// Makes the note of a claim live in the claim's own directory: where the notes of the state directory `outer` take none, those
// who claim inside find their units there. Throws Error(unavailable) where there can be no such directory; empty when it is
// full.
Fd note_in_own_directory(const ClaimStoreOptions& options, const StateDir& outer, const Note& note, const SlotKeys& keys,
                         int above);
// That directory; empty where there is none of mine.
Fd find_own_directory_of(const ClaimStoreOptions& options, const std::string& claim_id);

// Removes the directory of a claim that has ended, with what was made inside it. Its keeper does so when it keeps it no more;
// after a killed keeper, or where somebody inside lives on, the sweep.
void remove_inner_directory(const std::string& path);

// Removes what killed keepers and makers left in the personal directory `root`: directories that nothing marks and nobody holds
// (lock_as_keeper), with nothing in them, or with a socket and whose claim does not live.
void sweep_unmarked(const std::string& root, const std::function<bool(const std::string& id)>& lives);

// A keeper's sign of life on its claim's directory; false when the directory was swept before it was given.
bool lock_as_keeper(int directory);

// Removes the directories of dead claims; `lives` asks `outer` for one of mine.
void sweep_inner_directories(const ClaimStoreOptions& options, const std::string& outer,
                             const std::function<bool(const std::string& id)>& lives);

}  // namespace thole::host
