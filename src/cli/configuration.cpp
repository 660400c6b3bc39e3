#include "cli/configuration.hpp"

#include <string>

#include "base/fd.hpp"
#include "cli/line/table.hpp"

extern char** environ;

namespace thole::cli {

wire::Config configuration(const Invocation& invocation) {
  const bool goes_on = invocation.verb && invocation.verb->goes_on_anyway;
  const plan::Environment environment = wire::process_environment(environ);
  wire::Config config = wire::read_config(environment, wire::config_files(environment), read_link("/proc/self/exe"),
                                          goes_on ? wire::OnMistake::leave_out : wire::OnMistake::refuse);
  wire::Settings& settings = config.settings;
  if (invocation.global.machine) settings.machine = *invocation.global.machine;
  if (invocation.global.state_dir) settings.state_dir = *invocation.global.state_dir;
  if (invocation.global.queue_dir) settings.queue_dir = *invocation.global.queue_dir;
  return config;
}

}  // namespace thole::cli
