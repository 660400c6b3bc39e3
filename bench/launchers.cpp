// Launching tasks that do nothing, tasks a second: a bare posix_spawn loop, `thole map`, and its peers, interleaved in one run
// so that all of them see the same noise. The figure is the median over the rounds of the ratio to the bare loop of the same
// round. Usage: bench_launchers THOLE [TASKS [ROUNDS [SLOTS…]]]
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/fd.hpp"
#include "bare_loop.hpp"
#include "base/text.hpp"
#include "table.hpp"

namespace thole::bench {
namespace {

constexpr const char* program = "/bin/true";

double bare(unsigned tasks, unsigned slots) {
  const double begin = now_us();
  if (!bare_loop(tasks, slots)) std::exit(1);
  return now_us() - begin;
}

double shell(const std::string& line) {
  std::string text = line;
  char shell_path[] = "/bin/sh", option[] = "-c";
  char* const words[] = {shell_path, option, text.data(), nullptr};
  const double begin = now_us();
  pid_t pid = -1;
  if (::posix_spawn(&pid, shell_path, nullptr, nullptr, words, environ) != 0) return -1;
  int status = 0;
  ::waitpid(pid, &status, 0);
  const double took = now_us() - begin;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? took : -1;
}

struct Candidate {
  std::string name, line;              // N and J are replaced
  unsigned fewer = 1;                  // runs this part of the tasks: it is slow
  Samples rates, ratios;
};

std::string filled(std::string line, unsigned tasks, unsigned slots) {
  for (auto [word, number] : {std::pair{"%N", tasks}, {"%J", slots}})
    for (std::size_t at; (at = line.find(word)) != std::string::npos;) line.replace(at, 2, std::to_string(number));
  return line;
}

void measure(const std::string& thole, unsigned tasks, unsigned rounds, unsigned slots) {
  const std::string items = "seq %N | ";
  std::vector<Candidate> candidates = {
      {"thole map -g 0", items + thole + " map -q -g 0 -j %J " + program, 1, {}, {}},
      {"thole map -g 0 -u", items + thole + " map -q -u -g 0 -j %J " + program, 1, {}, {}},
      {"thole map, a claimed GPU a lane", items + thole + " --machine 8xA100 map -q -j %J " + program, 1, {}, {}},
      {"thole map -g 0 --joblog", items + thole + " map -q -g 0 -j %J --joblog /dev/shm/thole-bench.log " + program, 1, {}, {}},
      {"xargs -P -n1", items + "xargs -P %J -n1 " + program, 1, {}, {}},
      {"make -j", "make -s -r -j %J -f /dev/shm/thole-bench.mk $(seq -f t%.0f %N)", 1, {}, {}},
      {"GNU parallel", items + "parallel -j %J " + program, 20, {}, {}},
      {"task-spooler (tsp -n)",
       "export TS_SOCKET=/dev/shm/thole-bench.tsp; tsp -S %J; for i in $(seq %N); do tsp -n " + std::string(program) +
           " $i > /dev/null; done; tsp -w; tsp -K", 5, {}, {}}};
  (void)!shell("echo 't%:;@" + std::string(program) + " 1' > /dev/shm/thole-bench.mk");
  Samples bare_rates;
  for (unsigned round = 0; round < rounds; ++round)
    for (Candidate& candidate : candidates) {
      const unsigned some = tasks / candidate.fewer;
      // On both sides of the candidate: the machine's speed drifts.
      double alone = bare(tasks, slots) / tasks;
      const double took = shell(filled(candidate.line, some, slots)) / some;
      alone = (alone + bare(tasks, slots) / tasks) / 2;
      bare_rates.push_back(1e6 / alone);
      if (took <= 0) continue;
      candidate.rates.push_back(1e6 / took);
      candidate.ratios.push_back(alone / took);
    }
  std::printf("\n%u slots, %u tasks, %u rounds\n  %-34s %9s %8s %8s %8s\n", slots, tasks, rounds, "", "tasks/s", "ratio", "min",
              "max");
  std::printf("  %-34s %9.0f %8s\n", "bare posix_spawn loop", percentile(bare_rates, 50), "1");
  for (const Candidate& candidate : candidates)
    if (candidate.ratios.empty()) std::printf("  %-34s   not here\n", candidate.name.c_str());
    else
      std::printf("  %-34s %9.0f %8.2f %8.2f %8.2f\n", candidate.name.c_str(), percentile(candidate.rates, 50),
                  percentile(candidate.ratios, 50), percentile(candidate.ratios, 0), percentile(candidate.ratios, 100));
  std::fflush(stdout);
  (void)!shell("rm -f /dev/shm/thole-bench.*");
}

}  // namespace
}  // namespace thole::bench

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: bench_launchers THOLE [TASKS [ROUNDS [SLOTS...]]]\n"), 64;
  const auto number = [&](int at, unsigned otherwise) {
    return argc > at ? static_cast<unsigned>(std::atoi(argv[at])) : otherwise;
  };
  const unsigned tasks = number(2, 2000), rounds = number(3, 5);
  std::vector<unsigned> slots;
  for (int at = 4; at < argc; ++at) slots.push_back(number(at, 1));
  if (slots.empty()) slots = {2, 8};
  for (const unsigned count : slots) thole::bench::measure(argv[1], tasks, rounds, count);
}
