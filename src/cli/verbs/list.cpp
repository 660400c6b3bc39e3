// All verbs, in the order of --help. A new one is a file beside this that ends with its row, and a line here.
#include <functional>
#include <span>

#include "cli/line/table.hpp"

namespace thole::cli {

#define THOLE_VERBS(row) \
  row(status) \
  row(why) \
  row(run) \
  row(map) \
  row(claim) \
  row(release) \
  row(extend) \
  row(submit) \
  row(jobs) \
  row(logs) \
  row(wait) \
  row(cancel) \
  row(retry) \
  row(hold) \
  row(resume) \
  row(pause) \
  row(proceed) \
  row(drain) \
  row(edit) \
  row(jupyter) \
  row(topo) \
  row(bind) \
  row(compat) \
  row(doctor) \
  row(capture) \
  row(init) \
  row(plan) \
  row(simulate) \
  row(completion) \
  row(complete) \
  row(probe) \
  row(runner) \
  row(placeholder)

#define THOLE_ROW(name) extern const Verb name##_verb;
THOLE_VERBS(THOLE_ROW)
#undef THOLE_ROW

std::span<const std::reference_wrapper<const Verb>> verbs() {
#define THOLE_ROW(name) name##_verb,
  static constexpr std::reference_wrapper<const Verb> all[] = {THOLE_VERBS(THOLE_ROW)};
#undef THOLE_ROW
  return all;
}

}  // namespace thole::cli
