// The probe by itself, for tests that need no other part of the program:   fake_probe __probe NAME
// and the calls that it makes, in this process, for the bench of `status`:  fake_probe calls LIBRARY ROUNDS
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "host/gpu/nvidia/read.hpp"
#include "wire/probe.hpp"

namespace {

using namespace thole::host;

// Prints the microseconds of each round: what a reading costs without a process, a pipe and a program around it. Every round
// loads nothing anew, but asks for everything, identity included.
int time_calls(const char* path, int rounds) {
  auto loaded = nvidia::load(path);
  auto* library = std::get_if<nvidia::Library>(&loaded);
  for (int round = 0; library && round < rounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    nvidia::Source source(*library);
    auto count = source.begin({}).count;
    for (std::uint32_t i = 0; i < count.value; ++i) source.identity(i, {});
    for (std::uint32_t i = 0; i < count.value; ++i) source.use(i, thole::port::Purpose::show, false);
    auto took = std::chrono::steady_clock::now() - begin;
    std::printf("%ld\n", static_cast<long>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  }
  return library ? 0 : 69;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "calls") == 0) return time_calls(argv[2], std::atoi(argv[3]));
  return argc == 3 ? thole::wire::run_probe({argv[2]}) : 64;
}
