// What /proc tells out of the memory of a process: its command line, its environment. Who reads it waits for the lock of that
// memory (mmap_lock), and a process that waits for a file system that does not answer may keep it for as long. Anybody can
// have such a process: a page of a FUSE mount of one's own does it. No signal but KILL ends that wait. So a thread reads, and
// is left to itself if it takes too long; nothing else asks there before it is back.
//
// What else is read of a process here (stat, status, comm, exe, fd, fdinfo, ns) needs no such lock.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace thole::host {

struct MemoryText {
  std::string text;
  int why = 0;           // the errno for which it is not told; ETIMEDOUT: its memory is locked, or no thread is to be had
};

class MemoryFile {
 public:
  enum class For { show, decide };               // how long it is waited for, at most: 0.25 s and 2 s, all of a crowd 1 s

  MemoryFile(std::string path, For what);        // opened at the first read: "/proc/PID/cmdline"

  // From its beginning, at most so much, by one read(2): between two the process may leave that memory by an execve(2), and
  // the second would show its end. Later reads are of the same memory.
  MemoryText read(std::size_t most);

 private:
  struct Reading;
  std::shared_ptr<Reading> reading_;
};

// The words of a command line, with spaces between them; `why` as above, and ETIMEDOUT soon.
MemoryText command_line(const std::string& directory, std::size_t most);

}  // namespace thole::host
