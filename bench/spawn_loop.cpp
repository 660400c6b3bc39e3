// The bare operation beside which launchers are measured, as a program of its own. Usage: bench_spawn_loop TASKS SLOTS
#include <cstdlib>

#include "bare_loop.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const auto number = [&](int at) { return static_cast<unsigned>(std::atoi(argv[at])); };
  return thole::bench::bare_loop(number(1), number(2)) ? 0 : 1;
}
