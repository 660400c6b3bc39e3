#include "proof.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace thole::torture {
namespace {

constexpr int above_all_others = 600;

bool lock(int fd, off_t from, off_t length) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = from;
  range.l_len = length;
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0;
}

}  // namespace

ProofBook::ProofBook(const std::string& folder) : folder_(folder) { ::mkdir(folder.c_str(), 0777); }

Fd ProofBook::open(const std::string& unit) const {
  Fd low(::open((folder_ + "/" + unit).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  return Fd(::fcntl(low.get(), F_DUPFD_CLOEXEC, above_all_others));
}

Fd ProofBook::own(const std::string& unit) const {
  Fd fd = open(unit);
  return lock(fd.get(), 0, 0) ? std::move(fd) : Fd();
}

Fd ProofBook::share(const std::string& unit) const {
  Fd fd = open(unit);
  for (unsigned token = 0; token < share_tokens; ++token)
    if (lock(fd.get(), token, 1)) return fd;
  return Fd();
}

bool ProofBook::empty() const {
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    Fd fd(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (!lock(fd.get(), 0, 0)) return false;
  }
  return true;
}

}  // namespace thole::torture
