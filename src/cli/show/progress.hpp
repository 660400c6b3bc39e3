// What `run` and `claim` tell while they wait and when they start: lines on stderr, or with --json one JSON object a line.
#pragma once

#include <string>

#include "app/claim/run.hpp"
#include "cli/context.hpp"

namespace thole::cli {

class Progress {
 public:
  explicit Progress(Context& context, bool lingers = false) : context_(context), lingers_(lingers) {}

  app::RunEvents events();  // refer to this object
  void ended(const port::Ended& ended);
  void binding(const app::Binding& binding, std::size_t rank);  // before the start: what it lacks, and under -v all of it
  void bound(const app::Binding& binding, std::size_t rank, const app::ReadBack& answer);

 private:
  bool waits_not() const;          // --no-wait: what is told is why not, not how to leave
  void waiting(const app::Standing& standing);
  void got(const app::Acquired& acquired);
  void caution(const std::string& text);
  void left_behind(const std::vector<std::string>& processes);
  void say(const char* event, const model::Json& more) const;  // --json

  Context& context_;
  bool lingers_;                     // --linger: what is left behind is waited for
  std::optional<model::Wait> last_;  // the last standing told; the same twice is not news
  std::optional<SteadyTime> since_;  // of the wait
};

// --dry-run of both.
int show_preview(Context& context);

}  // namespace thole::cli
