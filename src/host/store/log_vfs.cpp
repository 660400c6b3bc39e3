#include "host/store/log_vfs.hpp"

#include <sqlite3.h>
#include <sys/mman.h>

#include <cerrno>

namespace thole::host {

namespace {

constexpr const char* vfs_name = "thole";

sqlite3_vfs* system_vfs() { return sqlite3_vfs_find(nullptr); }

// SQLite writes the index of its log through memory. Where a full disk has no room for another copy of a page (btrfs; xfs of
// what was copied with `cp`) the kernel refuses that by a SIGBUS. So the pages are made ready to be written where SQLite locks
// something of the index, which it does before each change, and where it makes it larger: then the refusal is an error.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23                       // from Linux 5.14; before, there is no such way
#endif

constexpr int part_of_index = 32 * 1024;           // WALINDEX_PGSZ in SQLite's wal.c
constexpr int first_of_readers = 3;                // WAL_READ_LOCK(0)

const sqlite3_io_methods* system_methods = nullptr;

bool make_ready(volatile void* part) {
  return ::madvise(const_cast<void*>(part), part_of_index, MADV_POPULATE_WRITE) == 0 || errno != EFAULT;
}

bool make_index_ready(sqlite3_file* file) {
  for (int part = 0;; ++part) {
    volatile void* memory = nullptr;
    if (system_methods->xShmMap(file, part, part_of_index, 0, &memory) != SQLITE_OK || !memory) return true;
    if (!make_ready(memory)) return false;
  }
}

int map_index(sqlite3_file* file, int part, int size, int make, void volatile** memory) {
  const int code = system_methods->xShmMap(file, part, size, make, memory);
  return code == SQLITE_OK && make != 0 && *memory && !make_ready(*memory) ? SQLITE_FULL : code;
}

// A reader that cannot note how far it reads goes by what another one has noted.
int lock_index(sqlite3_file* file, int offset, int count, int flags) {
  const int code = system_methods->xShmLock(file, offset, count, flags);
  if (code != SQLITE_OK || flags != (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE) || make_index_ready(file)) return code;
  system_methods->xShmLock(file, offset, count, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
  return offset >= first_of_readers ? SQLITE_BUSY : SQLITE_FULL;
}

void watch_index_of(sqlite3_file* file) {
  static const sqlite3_io_methods ours = [file] {
    system_methods = file->pMethods;
    sqlite3_io_methods made = *system_methods;
    made.xShmMap = map_index;
    made.xShmLock = lock_index;
    return made;
  }();
  if (file->pMethods == system_methods) file->pMethods = &ours;
}

const sqlite3_io_methods* system_log_methods = nullptr;

int write_log(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
  sqlite3_int64 end = 0;
  if (at > 0 && (system_log_methods->xFileSize(file, &end) != SQLITE_OK || end < at)) return SQLITE_IOERR_SHORT_READ;
  return system_log_methods->xWrite(file, bytes, size, at);
}

void watch_log(sqlite3_file* file) {
  static const sqlite3_io_methods ours = [file] {
    system_log_methods = file->pMethods;
    sqlite3_io_methods made = *system_log_methods;
    made.xWrite = write_log;
    return made;
  }();
  if (file->pMethods == system_log_methods) file->pMethods = &ours;
}

int open_file(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  sqlite3_vfs* system = system_vfs();
  if ((flags & SQLITE_OPEN_WAL) == 0 || !path) {
    const int code = system->xOpen(system, path, file, flags, flags_out);
    if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) watch_index_of(file);
    return code;
  }
  int code = system->xOpen(system, path, file, flags & ~SQLITE_OPEN_CREATE, flags_out);
  if (code != SQLITE_OK) code = system->xOpen(system, path, file, flags, flags_out);   // and syncs the directory later
  if (code == SQLITE_OK) watch_log(file);
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
