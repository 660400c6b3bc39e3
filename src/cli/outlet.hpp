// What a program tells while it has something to watch over: it never waits for whoever reads.
//
// How this works. What goes into a descriptor without waiting is written at once, in the thread that tells it. The rest is
// kept, and written by a thread of its own, made for that, which may wait as long as it likes; what is told meanwhile comes
// behind it. stdout and stderr have one line each, or one for both where they are the same file: in the order of the telling.
//
// A pipe or a terminal is opened anew, so that not to wait is no matter of who has it too. Where that is not allowed (it is
// another user's) a pipe takes one piece of PIPE_BUF when poll says so, and to a terminal the thread writes, and is waited for
// a moment. Sockets have MSG_DONTWAIT, and files do not wait.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::cli {

// While it lives, all that the program tells goes through it (output.hpp). One at a time.
class Outlet {
 public:
  // Threads may be few: who has much to watch over has them at once, or not at all (Error(unavailable)).
  enum class Writers { when_needed, at_once };
  explicit Outlet(Writers writers = Writers::when_needed);
  ~Outlet();                                     // what is still kept then is written as long as the process lives
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  // False where nothing can be written there (any more), with errno. Any thread. Beside stdout and stderr one descriptor more.
  bool put(int fd, std::string_view bytes);
  bool put(int fd, Fd file);                     // from its beginning
  bool put(int fd, std::shared_ptr<const Fd> file, std::size_t from, std::size_t size);   // a part of one that has others, too

  // More is kept than should be: nobody reads, or not as fast.
  bool is_behind() const;

  // Readable once more of what was kept has been written, or nothing can be written there; until taken().
  int fd() const;
  void taken() const;

  // Waits until nothing is kept, or one of these is readable, or, with `patience`, nothing more is taken for so long. Whether
  // nothing is kept.
  bool drain(std::span<const int> until, std::optional<Millis> patience = {});

  int failed(int fd) const;                      // errno of why nothing can be written there; 0: not so, as far as is known
  int take_unread();                             // errno of why some of a file that was put could not be read, once; 0: all was

  static Outlet* current();                      // null: there is none

 private:
  struct Line;
  struct Lines;
  struct Kept;
  bool put_file(int fd, Kept kept);
  std::shared_ptr<Lines> lines_;                 // its threads have it too
};

}  // namespace thole::cli
