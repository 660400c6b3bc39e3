// A disk for SQLite that remembers what was written and what was synced, loses power and fills up, as a test wants.
//
// How this works. It is an SQLite VFS over the system's own: files lie where they always do, and every write, truncation, sync
// and deletion is also put on record. An image of a moment is made from the record alone. What a file held at its last sync is
// kept; of the writes since then, cut into sectors as a disk writes them, a random part. A file that was never synced may be
// missing, a deletion may not have happened unless the directory was synced: on request, or with the first sync of a new log,
// as SQLite does. Shared memory is no part of an image: it is gone with the power.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace thole::host {

class DiskOfTests {
 public:
  DiskOfTests();                                 // one at a time
  ~DiskOfTests();
  DiskOfTests(const DiskOfTests&) = delete;
  DiskOfTests& operator=(const DiskOfTests&) = delete;

  const char* vfs() const { return "thole_disk_of_tests"; }

  std::size_t moments() const { return record_.size(); }   // so many things have happened

  std::size_t syncs() const;                     // how many of them were syncs of a file

  // Writes what a loss of power at this moment may leave of `directory` into `into`, which is empty.
  void image(std::size_t moment, const std::string& directory, const std::string& into, std::mt19937& random) const;

  // From now on so many bytes can be written, then the disk is full.
  void room(std::uint64_t bytes) { room_ = bytes; }

  // So many reads fail, after `from` others.
  void fail_reads(unsigned from, unsigned count) { sound_reads_ = from, failing_reads_ = count; }

  void fail_syncs(unsigned count) { failing_syncs_ = count; }   // the next ones

  // For the VFS.
  struct Event {
    enum class Kind { write, truncate, sync, remove } kind;
    std::string path;
    std::uint64_t offset = 0;                    // truncate: the new size; sync, remove: 1 if the directory was synced
    std::string bytes;
  };
  void record(Event event) { record_.push_back(std::move(event)); }
  const std::vector<Event>& record() const { return record_; }
  void opened(const std::string& path);          // what is in a database's file before all else has been on the disk for long
  bool take_room(std::uint64_t bytes);
  bool read_fails();
  bool sync_fails() { return failing_syncs_ > 0 && failing_syncs_-- > 0; }

 private:
  std::vector<Event> record_;
  std::map<std::string, std::string> found_;
  unsigned sound_reads_ = 0, failing_reads_ = 0, failing_syncs_ = 0;
  std::uint64_t room_ = ~std::uint64_t{0};
};

}  // namespace thole::host
