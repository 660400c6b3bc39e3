#include "host/claims/keeper_look.hpp"

#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "host/claims/kernel_locks.hpp"

namespace thole::host {
namespace {

constexpr std::chrono::milliseconds descriptors_of_one{20};   // some thousands of descriptors

}  // namespace

KeeperLook::KeeperLook(std::set<FileNumber> locked) : locked_(std::move(locked)), all_(to_name_holders) {}

std::optional<bool> KeeperLook::keeps(pid_t pid, int fd) {
  struct stat lock;
  if (::fstat(fd, &lock) != 0) return std::nullopt;
  const auto [process, is_new] = known_.try_emplace(pid);
  KeptLocks& kept = process->second;
  if (is_new) {
    Allowance one(descriptors_of_one);
    kept = kept_locks(pid, locked_, [&] { return one.over() || all_.over(); });
  }
  if (kept.files.contains({lock.st_dev, lock.st_ino})) return true;
  return kept.all ? std::optional(false) : std::nullopt;
}

}  // namespace thole::host
