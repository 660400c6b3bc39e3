// The program: reads the command line, calls one command, and ends as documented.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/help.hpp"
#include "cli/parse.hpp"

namespace {

using namespace thole;

int run(const std::vector<std::string_view>& arguments) {
  const cli::Invocation invocation = cli::parse(arguments);
  if (invocation.global.version) {
    write_all(STDOUT_FILENO, "thole " THOLE_VERSION "\n");
  } else if (invocation.global.help) {
    write_all(STDOUT_FILENO, invocation.verb ? cli::help_of(*invocation.verb) : cli::general_help());
  } else {
    throw Error(ErrorCode::internal, "not there yet").about(std::string(invocation.verb ? invocation.verb->name : "status"));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const Error& error) {
    write_all(STDERR_FILENO, fmt::format("thole: {}\n", error.full()));
    return exit_status(error.code());
  }
}
