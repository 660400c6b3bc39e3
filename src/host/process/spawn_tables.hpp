// What posix_spawn takes for the processes that thole starts for itself: probes, placeholders, the runner of a queue, git.
#pragma once

#include <spawn.h>

#include <string>
#include <vector>

namespace thole::host {

// Its tables, freed whatever happens: a session of its own, and signals as a fresh program expects them, whatever the caller
// ignores or blocks. (In a session of its own Ctrl-Z does not stop it, not even one that had come before: we could not stop
// ourselves as long as it has not begun its program.) What becomes of the descriptors is for the caller to add to `actions`.
struct SpawnTables {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnTables();
  ~SpawnTables();
  SpawnTables(const SpawnTables&) = delete;
  SpawnTables& operator=(const SpawnTables&) = delete;
};

// The words as argv and envp are passed, a null pointer last; good as long as the words stay where they are. The functions that
// take them do not write there, though their types do not say so.
std::vector<char*> pointers(const std::vector<std::string>& words);

}  // namespace thole::host
