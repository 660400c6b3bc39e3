#include "host/claims/fallback_claims.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>

#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/guard.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/layout.hpp"
#include "host/claims/take_back.hpp"
#include "host/entries.hpp"
#include "host/path.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// What stands under these names in the directory at this path. One that was moved, swapped or copied is another.
std::set<FileNumber> nodes_at(const std::string& path, const std::vector<std::string>& names) {
  const Fd directory = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory) refuse_unseen(path, errno);
  return directory ? numbers_of_files(directory.get(), names) : std::set<FileNumber>();
}

std::vector<std::string> names_of_nodes(const std::vector<std::string>& units) {
  std::vector<std::string> names;
  for (const std::string& unit : units)
    std::ranges::move(nodes_of(unit), std::back_inserter(names));
  for (unsigned index = 0; index < most_tickets; ++index) names.push_back(turn_node(index));
  return names;
}

// Does this process, which keeps the guard of a claim, have the lock of a node that is none of these? Yes, too, where it has
// too many descriptors for us.
bool may_have_lost_lock(pid_t pid, const std::set<FileNumber>& nodes, Allowance& allowance) {
  bool found = false;
  for_each_open_file_of_any_thread(pid, [&](pid_t thread, const OpenFile& open) {
    if (S_ISFIFO(open.mode) && !nodes.contains({open.device, open.inode})) found = found || has_flock(thread, open.fd);
  }, [&] { return found || allowance.over(); });
  return found || allowance.over();
}

// Who may have a claim in a fallback that was deleted, emptied, moved or swapped since, in words; empty: nobody. Where somebody
// keeps the guard of such a claim that is to be certain: not everybody may have been looked at. And a job that goes on in its
// child all the time is missed by a list when its number begins anew at the lowest, so that no single look counts.
std::string claimed_in_lost(const std::string& path, const std::vector<std::string>& units, Allowance& strangers) {
  constexpr unsigned looks = 3;
  const std::set<FileNumber> nodes = nodes_at(path, names_of_nodes(units));
  KeeperOf wanted{guard_of(path)};
  const Fd parent = open_at(AT_FDCWD, parent_of(path).c_str(), O_RDONLY | O_DIRECTORY);
  struct stat about;   // common to namespaces where the fallback was, as a rule
  if (parent && ::fstat(parent.get(), &about) == 0) wanted.parent.emplace(about.st_dev, about.st_ino);
  for (unsigned look = 1;; ++look) {
    KeeperSearch search(wanted, strangers);
    std::string who;
    bool any_keeper = false;
    search.each([&](pid_t pid) {
      any_keeper = true;
      if (may_have_lost_lock(pid, nodes, strangers))
        who = describe_process(pid) + " has the lock of one that was deleted or moved";
      return who.empty();
    });
    if (!who.empty()) return who;
    const bool kept = parent && wanted.guard.is_kept_in(parent.get());
    const bool all = search.settled() && !search.missed_any();
    if (all && (!kept || (any_keeper && look == looks))) return "";   // who keeps it has no claim
    if (all && look < looks) continue;
    if (!kept && !is_listed(wanted.guard)) return "";
    const std::string why = search.missed_any() ? search.missed() + ", or another, has too many descriptors or locks"
                            : search.settled() ? std::string("no process is seen to have them")
                                               : std::string("processes come and go too fast");
    return "who keeps the locks of one that was deleted or moved cannot be told: " + why;
  }
}

}  // namespace

std::string claimed_in_fallback(const StatePaths& paths, const std::vector<std::string>& units, std::string& directory,
                                std::chrono::nanoseconds limit) {
  for (const std::string& path : paths.fallbacks) {
    Fd fallback = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!fallback) refuse_unseen(path, errno);
    if (!fallback) continue;
    for (const std::string& unit : units) {
      struct stat found;
      const std::string node = gpu_node(unit);
      if (::fstatat(fallback.get(), node.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
        refuse_unseen(path + "/" + node, errno);
        continue;
      }
      if (!S_ISFIFO(found.st_mode)) continue;
      Fd fd = open_at(fallback.get(), node.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
      if (!fd) refuse_unseen(path + "/" + node, errno);
      if (!fd || !stays_locked(fd.get())) continue;
      directory = path;
      return fmt::format("{}: {}", unit, describe_keeper(fd.get()));
    }
  }
  Allowance strangers(limit);
  for (const std::string& path : paths.fallbacks) {
    if (std::string who = claimed_in_lost(path, units, strangers); !who.empty()) {
      directory = path;
      return who;
    }
  }
  return "";
}

}  // namespace thole::host
