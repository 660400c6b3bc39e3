#include "host/gpu/process_names.hpp"

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>

#include "host/process/memory_file.hpp"
#include "host/process/tree.hpp"
#include "host/user_name.hpp"

namespace thole::host {
namespace {

constexpr std::size_t longest_command = 1024;

struct Named {
  std::string user, command;
  std::optional<uid_t> uid;
};

class Namer {
 public:
  explicit Namer(const Tree& tree) : tree_(tree) {}

  void name(model::GpuProcess& process) {
    auto [at, is_new] = named_.try_emplace(process.pid);
    if (is_new) at->second = look_up(process.pid);
    process.user = at->second.user;
    process.uid = at->second.uid;
    process.command = at->second.command;
  }

 private:
  Named look_up(pid_t pid) {
    std::string directory = tree_.at("/proc/" + std::to_string(pid));
    struct stat s;
    if (pid <= 0) return {};
    if (::stat(directory.c_str(), &s) != 0) {
      const auto ids = tree_.live() ? user_ids_by_pidfd(pid) : std::nullopt;
      return ids ? Named{name_of(ids->effective), "", ids->effective} : Named{};
    }
    std::string command = command_line(directory, longest_command).text;
    if (command.empty()) command = tree_.text("/proc/" + std::to_string(pid) + "/comm").value_or("");
    return {name_of(s.st_uid), command, s.st_uid};
  }

  const std::string& name_of(uid_t uid) {
    auto [user, is_new] = users_.try_emplace(uid);
    if (is_new) user->second = user_name(uid);
    return user->second;
  }

  const Tree& tree_;
  std::map<pid_t, Named> named_;
  std::map<uid_t, std::string> users_;
};

}  // namespace

void name_processes(const Tree& tree, std::vector<model::Gpu>& gpus) {
  Namer namer(tree);
  model::for_each_process(gpus, [&](model::GpuProcess& process) { namer.name(process); });
}

}  // namespace thole::host
