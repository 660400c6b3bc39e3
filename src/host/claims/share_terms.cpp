#include "host/claims/share_terms.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/byte_range.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr unsigned bits_of_range = 32, bits_of_claim = 30;
constexpr std::uint64_t most_mib = std::uint64_t{1} << 31;       // half of the range: no two meet

// What would keep me from writing there, as the kernel tells it: any one of the locks.
std::optional<struct flock> locked_from(int fd, off_t from, off_t length) {
  struct flock found = byte_range(F_WRLCK, from, length);
  if (::fcntl(fd, F_OFD_GETLK, &found) != 0) return byte_range(F_WRLCK, from, length);   // not known: all of it
  if (found.l_type == F_UNLCK) return std::nullopt;
  return found;
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

std::optional<pid_t> byte_locker(int node) {
  struct stat wanted;
  if (::fstat(node, &wanted) != 0) return std::nullopt;
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

std::uint64_t number_of_claim(std::string_view id) { return fnv1a(id) >> (64 - bits_of_claim); }

bool say_terms(int berth, const ShareTerms& terms) {
  const std::uint64_t memory = std::min(terms.memory_mib, most_mib);
  if (memory == 0) return true;          // nothing is said
  const std::uint64_t begin = ((terms.claim << 1) | (terms.with_any ? 1u : 0u)) << bits_of_range;
  struct flock range = byte_range(F_RDLCK, static_cast<off_t>(begin), static_cast<off_t>(memory));
  return ::fcntl(berth, F_OFD_SETLK, &range) == 0;
}

// The holder's is there all the time: where another is found, the holder's is seen on one side of that. Unless it covers the
// holder's, of which see above.
std::optional<ShareTerms> terms_on(int berth) {
  const auto found = locked_from(berth, 0, 0);
  if (!found || found->l_len <= 0) return std::nullopt;          // 0: to the end, however long
  const auto begin = static_cast<std::uint64_t>(found->l_start), length = static_cast<std::uint64_t>(found->l_len);
  const std::uint64_t said = begin >> bits_of_range;
  if (said << bits_of_range != begin || length > most_mib) return std::nullopt;
  const bool is_alone = (begin == 0 || !locked_from(berth, 0, found->l_start)) &&
                        !locked_from(berth, found->l_start + found->l_len, 0);
  return is_alone ? std::optional(ShareTerms{said >> 1, (said & 1) != 0, length}) : std::nullopt;
}

bool say_taken(int unit, unsigned k) {
  struct flock byte = byte_range(F_RDLCK, k, 1);
  return ::fcntl(unit, F_OFD_SETLK, &byte) == 0;
}

bool is_said_taken(int unit, unsigned k) { return locked_from(unit, k, 1).has_value(); }

bool says_anything(int node) { return locked_from(node, 0, 0).has_value(); }

std::string describe_byte_locker(int node) {
  if (const auto pid = byte_locker(node)) return describe_process(*pid) + " locks bytes of it";
  return std::string("somebody locks bytes of it") + (::geteuid() != 0 ? " (root is told who: sudo thole doctor)" : "");
}

}  // namespace thole::host
