#include "unit/host/store/disk_of_tests.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/open_directory.hpp"
#include "host/store/log_vfs.hpp"

namespace thole::host {

namespace {

constexpr std::size_t sector = 512;
DiskOfTests* disk = nullptr;                     // SQLite's functions have no other way to find it
sqlite3_vfs* system_vfs = nullptr;

struct File {
  sqlite3_file base;
  std::string* path;
  bool sync_directory;                           // with the first sync
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
sqlite3_file* real(sqlite3_file* file) { return of(file).real(); }

int close(sqlite3_file* file) {
  const int code = real(file)->pMethods->xClose(real(file));
  delete of(file).path;
  return code;
}
int read(sqlite3_file* file, void* to, int amount, sqlite3_int64 offset) {
  if (disk->read_fails()) return errno = EIO, SQLITE_IOERR_READ;
  return real(file)->pMethods->xRead(real(file), to, amount, offset);
}
int write(sqlite3_file* file, const void* from, int amount, sqlite3_int64 offset) {
  if (!disk->take_room(static_cast<std::uint64_t>(amount))) return SQLITE_FULL;
  disk->record({DiskOfTests::Event::Kind::write, *of(file).path, static_cast<std::uint64_t>(offset),
                std::string(static_cast<const char*>(from), static_cast<std::size_t>(amount))});
  return real(file)->pMethods->xWrite(real(file), from, amount, offset);
}
int truncate(sqlite3_file* file, sqlite3_int64 size) {
  disk->record({DiskOfTests::Event::Kind::truncate, *of(file).path, static_cast<std::uint64_t>(size), ""});
  return real(file)->pMethods->xTruncate(real(file), size);
}
int sync(sqlite3_file* file, int flags) {
  if (disk->sync_fails()) return errno = EIO, SQLITE_IOERR_FSYNC;
  const int code = real(file)->pMethods->xSync(real(file), flags);
  if (code == SQLITE_OK) disk->record({DiskOfTests::Event::Kind::sync, *of(file).path, of(file).sync_directory ? 1u : 0u, ""});
  of(file).sync_directory = false;
  return code;
}
int size(sqlite3_file* file, sqlite3_int64* bytes) { return real(file)->pMethods->xFileSize(real(file), bytes); }
int lock(sqlite3_file* file, int level) { return real(file)->pMethods->xLock(real(file), level); }
int unlock(sqlite3_file* file, int level) { return real(file)->pMethods->xUnlock(real(file), level); }
int check_lock(sqlite3_file* file, int* held) { return real(file)->pMethods->xCheckReservedLock(real(file), held); }
int control(sqlite3_file* file, int what, void* with) { return real(file)->pMethods->xFileControl(real(file), what, with); }
int sector_size(sqlite3_file* file) { return real(file)->pMethods->xSectorSize(real(file)); }
// Nothing is promised beyond what a plain disk does.
int traits(sqlite3_file*) { return 0; }
int shm_map(sqlite3_file* file, int page, int bytes, int extend, void volatile** to) {
  return real(file)->pMethods->xShmMap(real(file), page, bytes, extend, to);
}
int shm_lock(sqlite3_file* file, int offset, int n, int flags) {
  return real(file)->pMethods->xShmLock(real(file), offset, n, flags);
}
void shm_barrier(sqlite3_file* file) { real(file)->pMethods->xShmBarrier(real(file)); }
int shm_unmap(sqlite3_file* file, int remove) { return real(file)->pMethods->xShmUnmap(real(file), remove); }

constexpr sqlite3_io_methods methods = {2,    close,      read,    write,       truncate, sync,    size,     lock,
                                        unlock, check_lock, control, sector_size, traits,   shm_map, shm_lock, shm_barrier,
                                        shm_unmap, nullptr, nullptr};

int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* got) {
  File& made = of(file);
  const bool is_new = name && (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0 && !std::filesystem::exists(name);
  const int code = system_vfs->xOpen(system_vfs, name, made.real(), flags, got);
  made.base.pMethods = nullptr;
  if (code != SQLITE_OK) return code;
  made.base.pMethods = &methods;
  made.path = new std::string(shown_path(name ? name : ""));
  made.sync_directory = is_new;
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) disk->opened(*made.path);
  return code;
}
int remove(sqlite3_vfs*, const char* name, int sync_directory) {
  const int code = system_vfs->xDelete(system_vfs, name, sync_directory);
  if (code == SQLITE_OK) disk->record({DiskOfTests::Event::Kind::remove, shown_path(name), sync_directory != 0 ? 1u : 0u, ""});
  return code;
}

// The files of an image while the record is gone through.
struct Kept {
  std::optional<std::string> synced;             // nothing: never synced
  std::vector<const DiskOfTests::Event*> since;
  bool removed = false;                          // but the directory has not been synced since
};

void apply(std::string& content, const DiskOfTests::Event& event, std::mt19937* random) {
  if (event.kind == DiskOfTests::Event::Kind::truncate) {
    if (!random || (*random)() % 2 == 0) content.resize(event.offset);
    return;
  }
  for (std::size_t done = 0; done < event.bytes.size();) {
    // Up to the next sector's beginning on the disk.
    const std::size_t piece = std::min(event.bytes.size() - done, sector - (event.offset + done) % sector);
    if (!random || (*random)() % 2 == 0) {
      const std::size_t end = event.offset + done + piece;
      if (content.size() < end) content.resize(end);
      std::memcpy(content.data() + event.offset + done, event.bytes.data() + done, piece);
    }
    done += piece;
  }
}

}  // namespace

DiskOfTests::DiskOfTests() {
  disk = this;
  system_vfs = sqlite3_vfs_find(host::log_vfs());
  static sqlite3_vfs made;                       // SQLite keeps the pointer
  made = *system_vfs;
  made.szOsFile = static_cast<int>(sizeof(File)) + system_vfs->szOsFile;
  made.zName = "thole_disk_of_tests";
  made.xOpen = open;
  made.xDelete = remove;
  sqlite3_vfs_register(&made, 0);
}

DiskOfTests::~DiskOfTests() {
  sqlite3_vfs_unregister(sqlite3_vfs_find(vfs()));
  disk = nullptr;
}

void DiskOfTests::opened(const std::string& path) {
  if (found_.contains(path) || std::ranges::find(record_, path, &Event::path) != record_.end()) return;
  std::ifstream file(path, std::ios::binary);
  found_[path] = {std::istreambuf_iterator<char>(file), {}};
}

bool DiskOfTests::read_fails() {
  if (failing_reads_ == 0) return false;
  if (sound_reads_ > 0) return --sound_reads_, false;
  return --failing_reads_, true;
}

bool DiskOfTests::take_room(std::uint64_t bytes) {
  if (room_ == ~std::uint64_t{0}) return true;
  if (bytes > room_) {
    room_ = 0;
    return false;
  }
  room_ -= bytes;
  return true;
}

std::size_t DiskOfTests::syncs() const {
  return static_cast<std::size_t>(std::ranges::count(record_, Event::Kind::sync, &Event::kind));
}

void DiskOfTests::image(std::size_t moment, const std::string& directory, const std::string& into, std::mt19937& random) const {
  std::map<std::string, Kept> files;
  for (const auto& [path, content] : found_) files[path].synced = content;
  for (std::size_t i = 0; i < moment; ++i) {
    const Event& event = record_[i];
    Kept& file = files[event.path];
    const bool directory_synced = event.offset == 1 && (event.kind == Event::Kind::sync || event.kind == Event::Kind::remove);
    if (event.kind == Event::Kind::remove) file.removed = true;
    else if (file.removed) file = {};
    if (directory_synced) std::erase_if(files, [](const auto& entry) { return entry.second.removed; });
    if (event.kind == Event::Kind::sync) {
      std::string content = file.synced.value_or("");
      for (const Event* write : file.since) apply(content, *write, nullptr);
      file = {std::move(content), {}};
    } else if (event.kind != Event::Kind::remove) {
      file.since.push_back(&event);
    }
  }
  for (const auto& [path, file] : files) {
    if ((!file.synced || file.removed) && random() % 2 == 0) continue;
    std::string content = file.synced.value_or("");
    for (const Event* write : file.since) apply(content, *write, &random);
    std::ofstream out(into + path.substr(directory.size()), std::ios::binary);
    out << content;
  }
}

}  // namespace thole::host
