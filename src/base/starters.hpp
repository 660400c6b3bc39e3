// Programs that only start another: env, nice, nohup, setsid, stdbuf, timeout. Which command that is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole {

struct Started {
  std::vector<std::string> command;              // at least its program
  std::string directory;                         // `env --chdir`: where it runs, if elsewhere
  bool other_path = false;                       // $PATH is changed for it
};

// Nothing where `command` is another program's, starts nothing, or cannot be told without its variables (`env -S '${A}'`).
std::optional<Started> started_by(std::span<const std::string> command);

// The words of `env -S TEXT`. Nothing where it would refuse the text or put variables into it.
std::optional<std::vector<std::string>> words_of_env(std::string_view text);

}  // namespace thole
