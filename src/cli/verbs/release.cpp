// release: gives claims back.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/claim/holding.hpp"
#include "base/error.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"
#include "cli/claim_search.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/meanwhile.hpp"

namespace thole::cli {

namespace {

// The shell that was told to claim still has the variables.
void remind_to_unset(const Context& context, const std::string& id) {
  const auto& environment = context.wire.settings().environment;
  const auto here = environment.find("THOLE_CLAIM");
  if (here == environment.end() || here->second != id) return;
  const std::size_t slash = id.rfind('/');   // the claim around it goes on: what is claimed here next is to come from that
  const std::string around = slash == std::string::npos ? "" : id.substr(0, slash);
  const ShellKind shell = wire::shell_above();
  std::vector<std::string> names{"THOLE_GPUS", "CUDA_VISIBLE_DEVICES"};
  if (around.empty()) names.insert(names.begin(), "THOLE_CLAIM");
  context.note("this shell still has the variables of the claim: " +
               unset_in(shell, names) +
               (around.empty() ? "" : "; " + set_in(shell, "THOLE_CLAIM", around)));
}

constexpr Millis before_a_word{2'000};   // of a release that lasts

void say_what_it_waits_for(Context& context, const app::KeptClaim& claim) {
  std::optional<port::Ending> ending;
  try {
    ending = context.wire.control().ending(claim.address());
  } catch (const Error&) {   // its keeper has just let go, or is of an older thole
  }
  if (!ending) return context.note(fmt::format("waiting for the keeper of claim {} to let go", claim.id));
  const std::string name = ending->name.empty() ? "" : " (" + printable(ending->name, 32) + ")";
  const auto left = ending->killed
                        ? std::chrono::round<Seconds>(*ending->killed - std::chrono::steady_clock::now())
                        : Seconds{0};
  context.note(fmt::format("waiting for process {}{} to end{}", ending->pid, name,
                           left > Seconds{0} ? "; it is killed in " + format_duration(left) : ""));
}

// With its claim what ran of a job was cancelled, not what waits.
void say_what_waits(const Context& context, const app::ClaimSearch& search, model::JobId id) {
  if (search.job_called && search.job_called(std::to_string(id)))
    context.note(fmt::format("job {0} is in line again with what it has not begun: thole cancel {0} ends that, too", id));
}

int release(Context& context) {
  std::vector<std::string> words = context.invocation.words;
  if (words.empty()) words.emplace_back();  // the claim we are in
  app::ClaimSearch to_release = claim_search(context);
  to_release.to_release = true;
  std::vector<app::KeptClaim> claims;       // all must exist before one is released
  for (const std::string& word : words) {
    app::KeptClaim found = app::find_claim(to_release, word);
    const bool is_named_twice = std::ranges::find(claims, found.id, &app::KeptClaim::id) != claims.end();   // by two GPUs of it
    if (!is_named_twice) claims.push_back(std::move(found));
  }
  model::Json released = model::Json::array();
  for (const app::KeptClaim& claim : claims) {
    {
      const Meanwhile silence(before_a_word, [&] { say_what_it_waits_for(context, claim); });
      app::release(to_release, context.wire.control(), claim);
    }
    released.push_back(claim.id);
    if (context.invocation.global.json) continue;
    context.note(fmt::format("released {}", claim.id));
    if (claim.job) say_what_waits(context, to_release, *claim.job);
    remind_to_unset(context, claim.id);
  }
  if (context.invocation.global.json) context.print_json(model::Json{{"schema", "thole/released/1"}, {"claims", released}});
  return 0;
}

constexpr Example release_examples[] = {
  {"thole release", "give back the claim of this shell"},
  {"thole release 5f2c19d0a4e8b731", "give back the claim with this id"},
  {"thole release 0@alice", "as root: that of alice, of all who share GPU 0"},
};

}  // namespace

extern constexpr Verb release_verb = {
    .name = "release",
    .group = "run",
    .summary = "give a claim back",
    .operands = "[CLAIM...]",
    .examples = release_examples,
    .offer = Offer::claims,
    .max_words = 128,
    .run = release,
};

}  // namespace thole::cli
