// Four workers share out the GPUs of a machine: each claims one, works, and lets it go; who finds none free waits its turn.
//
//     c++ -std=c++17 claim.cpp -o claim $(pkg-config --cflags --libs thole) -pthread
//     THOLE_MACHINE=dgx-a100 ./claim
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thole/thole.hpp>
#include <thread>
#include <vector>

int main() {
  try {
    thole::Machine machine;
    std::mutex output;
    std::vector<std::thread> workers;
    std::vector<std::string> failures;
    for (int worker = 0; worker < 4; ++worker)
      workers.emplace_back([&, worker] {
        try {
          const thole::Claim claim = machine.claim(R"({"command": "example worker"})", {std::chrono::minutes(1)});
          {
            const std::lock_guard lock(output);
            std::printf("worker %d has %s\n", worker, claim.uuids().front().c_str());
          }
          std::this_thread::sleep_for(std::chrono::seconds(1));  // the work, while the GPU is this worker's
        } catch (const thole::Failure& failure) {
          const std::lock_guard lock(output);
          failures.emplace_back(failure.what());
        }
      });
    for (std::thread& worker : workers) worker.join();
    for (const std::string& failure : failures) std::fprintf(stderr, "claim: %s\n", failure.c_str());
    return failures.empty() ? 0 : THOLE_UNAVAILABLE;
  } catch (const thole::Failure& failure) {
    std::fprintf(stderr, "claim: %s\n", failure.what());
    return failure.code();
  }
}
