#include "host/claims/share_terms.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/byte_range.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr off_t first_mib = 1;                        // byte 0: for my own user alone
constexpr std::uint64_t most_mib = std::uint64_t{1} << 40;
constexpr unsigned most_locks = 16;                   // that are gone through; its holder needs one

// What would keep me from writing there, as the kernel tells it: any one of the locks.
std::optional<struct flock> locked_from(int fd, off_t from, off_t length) {
  struct flock found = byte_range(F_WRLCK, from, length);
  if (::fcntl(fd, F_OFD_GETLK, &found) != 0) return byte_range(F_WRLCK, from, length);   // not known: all of it
  if (found.l_type == F_UNLCK) return std::nullopt;
  return found;
}

// Behind the last byte that is locked. Unset: there is none.
std::optional<off_t> end_of_locks(int fd) {
  off_t end = 0;
  for (unsigned locks = 0; locks < most_locks; ++locks) {
    const auto found = locked_from(fd, end, 0);
    if (!found) return end;
    if (found->l_len == 0) break;
    end = found->l_start + found->l_len;
  }
  return std::nullopt;
}

// Locks of the holder's own open file are beside his flock.
bool locks_bytes_alone(pid_t thread, const char* fd) {
  const std::string info = about_descriptor(thread, fd).value_or("");
  const std::vector<std::string_view> lines = split_lines(info);
  const auto tells_of = [&](std::string_view what) {
    return std::ranges::any_of(lines, [&](std::string_view line) {
      return line.starts_with("lock:") && line.find(what) != std::string_view::npos;
    });
  };
  return (tells_of(" OFDLCK ") || tells_of(" POSIX ")) && !tells_of(" FLOCK ");
}

std::optional<pid_t> byte_locker(int berth) {
  struct stat wanted;
  if (::fstat(berth, &wanted) != 0) return std::nullopt;
  Allowance allowance(to_name_holders);
  bool found = false;
  const Stop stop = [&] { return found || allowance.over(); };
  for (pid_t pid : all_pids()) {
    for_each_open_file_of_any_thread(pid, [&](pid_t thread, const OpenFile& open) {
      if (FileNumber(open.device, open.inode) == FileNumber(wanted.st_dev, wanted.st_ino))
        found = found || locks_bytes_alone(thread, open.fd);
    }, stop);
    if (found) return pid;
    if (allowance.over()) break;
  }
  return std::nullopt;
}

}  // namespace

bool say_terms(int berth, const ShareTerms& terms) {
  const off_t end = first_mib + static_cast<off_t>(std::min(terms.memory_mib, most_mib));
  const off_t begin = terms.with_any ? first_mib : 0;
  if (begin == end) return true;                      // nothing is said
  struct flock range = byte_range(F_RDLCK, begin, end - begin);
  return ::fcntl(berth, F_OFD_SETLK, &range) == 0;
}

std::optional<ShareTerms> terms_on(int berth) {
  const auto end = end_of_locks(berth);
  if (!end || *end <= first_mib) return std::nullopt;
  return ShareTerms{!locked_from(berth, 0, first_mib), static_cast<std::uint64_t>(*end - first_mib)};
}

bool says_anything(int berth) { return locked_from(berth, 0, 0).has_value(); }

std::string describe_byte_lockers(int berth) {
  if (const auto pid = byte_locker(berth)) return describe_process(*pid) + " locks bytes of it";
  return std::string("somebody locks bytes of it") + (::geteuid() != 0 ? " (root is told who: sudo thole doctor)" : "");
}

std::string describe_berth_keeper(int berth) {
  const bool is_by_bytes = says_anything(berth) && lockers_of(kernel_locks().flocks, berth).empty();
  return is_by_bytes ? describe_byte_lockers(berth) : describe_keeper(berth);
}

}  // namespace thole::host
