#include "cli/configuration.hpp"

#include <unistd.h>

#include <string>

#include "cli/line/table.hpp"

extern char** environ;

namespace thole::cli {

namespace {

std::string path_of_this_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

wire::Config configuration(const Invocation& invocation) {
  const bool goes_on = invocation.verb && invocation.verb->goes_on_anyway;
  const plan::Environment environment = wire::process_environment(environ);
  wire::Config config = wire::read_config(environment, wire::config_files(environment), path_of_this_program(),
                                          goes_on ? wire::OnMistake::leave_out : wire::OnMistake::refuse);
  wire::Settings& settings = config.settings;
  if (invocation.global.machine) settings.machine = *invocation.global.machine;
  if (invocation.global.state_dir) settings.state_dir = *invocation.global.state_dir;
  if (invocation.global.queue_dir) settings.queue_dir = *invocation.global.queue_dir;
  return config;
}

}  // namespace thole::cli
