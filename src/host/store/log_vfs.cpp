#include "host/store/log_vfs.hpp"

#include <sqlite3.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/open_directory.hpp"

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

// The log is brought home page by page, and of what came after the state that somebody is just reading nothing (walCheckpoint
// in SQLite's wal.c): the file would then be of no one moment, and damaged were the log lost. So all of it is brought home or
// none. Where it cannot be read to its end (somebody has cut it meanwhile), or the file not be written (a full disk), that
// would keep a part of a change, so it gets back what it had. SQLite says where it begins and where it is through, in one
// thread.
struct BringingHome {
  struct Page {
    sqlite3_int64 at;
    std::vector<char> bytes;
  };
  bool in_part = false;
  sqlite3_int64 size = 0;                            // of the file, before
  std::vector<Page> before;
  bool failed = false;
};
thread_local std::unique_ptr<BringingHome> bringing_home;

// The index tells how far those go who read (WalIndexHdr, twice, and WalCkptInfo in wal.c); the first of them reads the file
// alone.
bool would_be_in_part(sqlite3_file* file) {
  constexpr int frames = 4, first_reader = 24 + 2, readers = 4;
  volatile void* memory = nullptr;
  if (system_methods->xShmMap(file, 0, part_of_index, 0, &memory) != SQLITE_OK || !memory) return false;
  const auto* told = static_cast<volatile std::uint32_t*>(memory);
  for (int i = 0; i < readers; ++i)
    if (told[first_reader + i] < told[frames]) return true;
  return false;
}

int size_of_file(sqlite3_file* file, sqlite3_int64* size) {
  if (bringing_home && bringing_home->in_part) return SQLITE_BUSY;
  return system_methods->xFileSize(file, size);
}

void begin_to_bring_home(sqlite3_file* file) try {
  bringing_home = std::make_unique<BringingHome>();
  bringing_home->in_part = would_be_in_part(file);
  if (system_methods->xFileSize(file, &bringing_home->size) != SQLITE_OK) bringing_home.reset();
} catch (const std::bad_alloc&) {
}

void end_of_bringing_home(sqlite3_file* file) {
  const auto ended = std::move(bringing_home);
  if (!ended || !ended->failed) return;
  for (const auto& [at, bytes] : ended->before)
    system_methods->xWrite(file, bytes.data(), static_cast<int>(bytes.size()), at);
  sqlite3_int64 size = 0;
  if (system_methods->xFileSize(file, &size) == SQLITE_OK && size > ended->size) system_methods->xTruncate(file, ended->size);
}

int failed_at_home(int code) {
  if (bringing_home) bringing_home->failed = true;
  return code;
}

int write_home(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) try {
  if (bringing_home && at < bringing_home->size) {
    BringingHome::Page page{at, std::vector<char>(static_cast<std::size_t>(size))};
    const int code = system_methods->xRead(file, page.bytes.data(), size, at);
    if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) return failed_at_home(code);
    bringing_home->before.push_back(std::move(page));
  }
  const int code = system_methods->xWrite(file, bytes, size, at);
  return code == SQLITE_OK ? code : failed_at_home(code);
} catch (const std::bad_alloc&) {
  return failed_at_home(SQLITE_NOMEM);
}

int control(sqlite3_file* file, int what, void* with) {
  if (what == SQLITE_FCNTL_CKPT_START) begin_to_bring_home(file);
  if (what == SQLITE_FCNTL_CKPT_DONE) end_of_bringing_home(file);
  return system_methods->xFileControl(file, what, with);
}

void watch_file(sqlite3_file* file) {
  static const sqlite3_io_methods ours = [file] {
    system_methods = file->pMethods;
    sqlite3_io_methods made = *system_methods;
    made.xWrite = write_home;
    made.xFileSize = size_of_file;
    made.xFileControl = control;
    made.xShmMap = map_index;
    made.xShmLock = lock_index;
    return made;
  }();
  if (file->pMethods == system_methods) file->pMethods = &ours;
}

const sqlite3_io_methods* system_log_methods = nullptr;

int write_log(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
  sqlite3_int64 end = 0;
  if (const int code = at > 0 ? system_log_methods->xFileSize(file, &end) : SQLITE_OK; code != SQLITE_OK) return code;
  if (end < at) return SQLITE_IOERR_SHORT_READ;
  return system_log_methods->xWrite(file, bytes, size, at);
}

int read_log(sqlite3_file* file, void* into, int size, sqlite3_int64 at) {
  const int code = system_log_methods->xRead(file, into, size, at);
  return code == SQLITE_OK ? code : failed_at_home(code);
}

void watch_log(sqlite3_file* file) {
  static const sqlite3_io_methods ours = [file] {
    system_log_methods = file->pMethods;
    sqlite3_io_methods made = *system_log_methods;
    made.xRead = read_log;
    made.xWrite = write_log;
    return made;
  }();
  if (file->pMethods == system_log_methods) file->pMethods = &ours;
}

int open_file(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  sqlite3_vfs* system = system_vfs();
  if ((flags & SQLITE_OPEN_WAL) == 0 || !path) {
    const int code = system->xOpen(system, path, file, flags, flags_out);
    if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) watch_file(file);
    return code;
  }
  int code = system->xOpen(system, path, file, flags & ~SQLITE_OPEN_CREATE, flags_out);
  if (code != SQLITE_OK) code = system->xOpen(system, path, file, flags, flags_out);   // and syncs the directory later
  if (code == SQLITE_OK) watch_log(file);
  return code;
}

// What leads through a directory that is open stays so: SQLite itself would take the name which that has now.
int full_name(sqlite3_vfs*, const char* path, int room, char* full) {
  if (!leads_through_open(path)) return system_vfs()->xFullPathname(system_vfs(), path, room, full);
  return static_cast<std::size_t>(::snprintf(full, static_cast<std::size_t>(room), "%s", path)) <
                 static_cast<std::size_t>(room) ? SQLITE_OK : SQLITE_CANTOPEN;
}

bool add() {
  static sqlite3_vfs ours;
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);   // nobody asks, and a mutex for every allocation is felt; before all else
  sqlite3_initialize();
  ours = *system_vfs();
  ours.zName = vfs_name;
  ours.xOpen = open_file;
  ours.xFullPathname = full_name;
  ours.pNext = nullptr;
  return sqlite3_vfs_register(&ours, 0) == SQLITE_OK;
}

}  // namespace

const char* log_vfs() {
  static const bool added = add();
  return added ? vfs_name : nullptr;
}

}  // namespace thole::host
