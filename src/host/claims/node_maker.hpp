// Makes the nodes of a state directory: each gets its access before it gets its name, so that no moment shows it more widely.
#pragma once

#include <sys/types.h>

#include <unistd.h>

#include <optional>
#include <string>

#include "base/fd.hpp"

namespace thole::host {

// The mode and group of the nodes that everybody who may claim can open; absent: those of the process, or as they are.
struct Access {
  mode_t mode = 0666;
  std::optional<gid_t> group;
};

class NodeMaker {
 public:
  NodeMaker(int directory, std::string path, Access access) : directory_(directory), path_(std::move(path)), access_(access) {}

  const Access& access() const { return access_; }

  // Nothing where there is a node of this name.
  void make_fifo(const std::string& name) const;
  // Opens the file, making it first where there is none. Without `mode`: the common access.
  Fd make_file(const std::string& name, std::optional<mode_t> mode = std::nullopt) const;
  // A new file of this name in place of the old one: made by `fill`, then renamed. Who has the old one open sees that it has no
  // name any more.
  template <typename Fill>
  Fd replace_file(const std::string& name, const Fill& fill, std::optional<mode_t> mode = std::nullopt) const {
    ::unlinkat(directory_, unfinished(name).c_str(), 0);
    Fd fd = make_file(unfinished(name), mode);
    fill(fd.get());
    name_finished(name);
    return fd;
  }

  // Brings a FIFO to the access wanted, making it where there is none. One that others may still have open, who could not
  // open it any more, is made anew while nobody has it locked, for a descriptor outlives every change of mode. A locked one is
  // closed to newcomers; false: it is to be made anew the next time.
  bool renew_fifo(const std::string& name) const;

  // A new FIFO in place of the old one, whoever has that locked: that is marked (base/same_file.hpp, given_up).
  void replace_fifo(const std::string& name) const;

  // While a FIFO is marked, whoever locks it does not get it (same_file.hpp, being_taken).
  void mark(const std::string& name, bool marked) const;

  // Deletes a FIFO that `lock` has locked. It is marked: whoever locks it afterwards holds nothing.
  void give_up(int lock, const std::string& name) const;
  static void give_up(int nameless);             // one that has no name any more

  // Does a file of this name have another access than wanted?
  bool differs(const std::string& name) const;

  [[noreturn]] void failed(const char* what, const std::string& name) const;

 private:
  static std::string unfinished(const std::string& name) { return "new." + name; }
  void name_finished(const std::string& name) const;
  void allot(const std::string& name) const;
  template <class Make>
  bool with_room(Make&& make) const;

  int directory_;
  std::string path_;
  Access access_;
};

}  // namespace thole::host
