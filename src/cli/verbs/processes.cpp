// The processes that thole starts of itself: what looks at GPUs, what works on the queue, what makes a claim look like use.
#include <csignal>

#include "cli/configuration.hpp"
#include "cli/line/table.hpp"
#include "wire/probe.hpp"
#include "wire/queue.hpp"
#include "wire/wire.hpp"

namespace thole::cli {

namespace {

int probe(const Invocation& invocation) { return wire::run_probe(invocation.words); }

int runner(const Invocation& invocation) {
  wire::become_runner_process();
  const wire::Config config = configuration(invocation);
  wire::Wire wire(config.settings);
  std::signal(SIGXFSZ, SIG_IGN);
  wire.queue().run(!invocation.words.empty());   // "relieve"
  return 0;
}

int placeholder(const Invocation& invocation) { return wire::run_placeholder(invocation.words); }

}  // namespace

extern constexpr Verb probe_verb = {
    .name = "__probe",
    .summary = "the process that calls vendor libraries",
    .raw = true,
    .run_alone = probe,
};

extern constexpr Verb runner_verb = {
    .name = "__runner",
    .summary = "the process that works on the queue",
    .operands = "[relieve]",
    .max_words = 1,
    .raw = true,
    .run_alone = runner,
};

extern constexpr Verb placeholder_verb = {
    .name = "__placeholder",
    .summary = "the process that makes claimed GPUs look used",
    .raw = true,
    .run_alone = placeholder,
};

}  // namespace thole::cli
