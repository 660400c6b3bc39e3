#include "plan/interpreter.hpp"

#include <algorithm>
#include <iterator>

namespace thole::plan {

namespace {

constexpr std::string_view shells[] = {"sh", "bash", "dash", "zsh", "ksh", "fish"};
constexpr std::string_view languages[] = {"python", "perl", "julia", "Rscript"};

std::string_view last_name(std::string_view program) { return program.substr(program.find_last_of('/') + 1); }

bool is_shell(std::string_view name) { return std::ranges::find(shells, name) != std::end(shells); }

// "python3.11" is python.
std::string_view without_version(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789.");
  return end == std::string_view::npos ? name : name.substr(0, end + 1);
}

}  // namespace

bool is_interpreter(std::string_view program) {
  const std::string_view name = last_name(program);
  return is_shell(name) || std::ranges::find(languages, without_version(name)) != std::end(languages);
}

bool awaits_script(std::span<const std::string> command) {
  if (command.empty() || !is_interpreter(command.front())) return false;
  const std::string_view name = last_name(command.front());
  if (command.size() == 1) return name != "Rscript";   // that shows its help
  const std::string_view first = command[1];
  return first == "-" || first == "/dev/stdin" || (first == "-s" && is_shell(name));
}

}  // namespace thole::plan
