#include "host/process/local_processes.hpp"

#include <cstdlib>
#include <string>

#include "host/process/spawn.hpp"

namespace thole::host {

void LocalProcesses::check_program(const port::ProcessSpec& spec) const {
  port::ProcessSpec there = spec;
  std::string& program = there.argv.at(0);
  if (!spec.cwd.empty() && program.find('/') != std::string::npos && !program.starts_with('/'))
    program = spec.cwd + "/" + program;
  Launch(there, inherited_).check_program();
}

void LocalProcesses::end_as(const port::Ended& ended) {
  if (ended.signal) die_by(*ended.signal);
  std::exit(ended.exit_code.value_or(125));
}

void LocalProcesses::become(const port::ProcessSpec& spec) {
  Launch launch(spec, inherited_);
  launch.become();
}

}  // namespace thole::host
