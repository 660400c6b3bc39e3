// What every verb that changes the queue does after it has: says so, and then who could not be told of it.
#pragma once

#include "app/queue/job_actions.hpp"
#include "cli/context.hpp"

namespace thole::cli {

// After what was done has been told: who could not be told of it.
class WarnLast {
 public:
  WarnLast(Context& context, const app::Caution& caution) : context_(context), caution_(caution) {}
  ~WarnLast() {
    if (!caution_.empty()) context_.warn(caution_);
  }
  WarnLast(const WarnLast&) = delete;
  WarnLast& operator=(const WarnLast&) = delete;

 private:
  Context& context_;
  const app::Caution& caution_;
};

// Whoever cannot be told of a change would ask for it again: throws that it is stored.
void print_change(const Context& context, const model::Json& json);

}  // namespace thole::cli
