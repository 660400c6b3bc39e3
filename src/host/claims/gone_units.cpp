#include "host/claims/gone_units.hpp"

#include <fcntl.h>

#include <map>

#include "base/made.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/layout.hpp"
#include "host/process/signal_process.hpp"

namespace thole::host {

std::vector<std::string> told_of_gone(int directory, const std::set<std::string>& gone,
                                      const std::set<std::string>& partitioned) {
  std::vector<std::string> told;
  if (gone.empty()) return told;
  const KernelLocks locks = kernel_locks(for_init_to_tell);
  std::map<pid_t, unsigned> holders;
  std::map<std::string, std::vector<std::string>> of_ended;   // by a sentence that names who has the lock since
  for (const std::string& key : gone) {
    const Fd node = open_at(directory, gpu_node(key).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    std::vector<pid_t> takers = lockers_of(locks.flocks, node.get());
    if (takers.empty()) continue;
    if (partitioned.contains(key)) {
      told.push_back(fmt::format("all of {0} was locked before it was partitioned, and nobody can claim its instances: {1}; to "
                                 "take it back: sudo thole init --take-back {0}", key, describe_keeper(node.get())));
      continue;
    }
    std::erase_if(takers, [](pid_t pid) { return !is_any_process(pid); });
    for (pid_t pid : takers) ++holders[pid];
    if (takers.empty()) of_ended[describe_keeper(node.get())].push_back(key);
  }
  const auto until_then = [](std::size_t number) {
    return fmt::format("{} never forgotten, and all of a GPU that was partitioned then can be claimed beside {}",
                       number == 1 ? "it is" : "they are", number == 1 ? "it" : "them");
  };
  for (const auto& [sentence, keys] : of_ended)
    told.push_back(fmt::format("{} {} gone and kept locked: {}; while that is so, {}", join(some_of(keys), ", "),
                               keys.size() == 1 ? "is" : "are", sentence, until_then(keys.size())));
  for (const auto& [pid, number] : holders)
    told.push_back(fmt::format("{} keeps the lock{}: end it, or {}", describe_process(pid),
                               number == 1 ? " of 1 unit that is gone" : fmt::format("s of {} units that are gone", number),
                               until_then(number)));
  return told;
}

}  // namespace thole::host
