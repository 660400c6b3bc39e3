#include "host/store/log_vfs.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <string>

#include "base/fd.hpp"

namespace thole::host {

namespace {

constexpr const char* vfs_name = "thole";

sqlite3_vfs* system_vfs() { return sqlite3_vfs_find(nullptr); }

void sync_directory_of(const std::string& path) {
  const Fd directory = open_at(AT_FDCWD, path.substr(0, path.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY);
  if (directory) ::fsync(directory.get());
}

int open_file(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  sqlite3_vfs* system = system_vfs();
  if ((flags & SQLITE_OPEN_WAL) == 0 || !path) return system->xOpen(system, path, file, flags, flags_out);
  if (system->xOpen(system, path, file, flags & ~SQLITE_OPEN_CREATE, flags_out) == SQLITE_OK) return SQLITE_OK;
  const int code = system->xOpen(system, path, file, flags, flags_out);
  if (code == SQLITE_OK) sync_directory_of(path);
  return code;
}

bool add() {
  static sqlite3_vfs ours;
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);   // nobody asks, and a mutex for every allocation is felt; before all else
  sqlite3_initialize();
  ours = *system_vfs();
  ours.zName = vfs_name;
  ours.xOpen = open_file;
  ours.pNext = nullptr;
  return sqlite3_vfs_register(&ours, 0) == SQLITE_OK;
}

}  // namespace

const char* log_vfs() {
  static const bool added = add();
  return added ? vfs_name : nullptr;
}

}  // namespace thole::host
