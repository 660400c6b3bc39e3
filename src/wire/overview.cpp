#include "wire/overview.hpp"

#include "base/error.hpp"

namespace thole::wire {

app::Overview overview_of(Wire& wire, const app::Observer& observer) {
  const Settings& settings = wire.settings();
  port::ClaimStore* store = nullptr;
  std::string problem;
  try {
    store = wire.find_store();
  } catch (const Error& error) {
    problem = error.full();
  }
  return app::look_over({.observer = observer,
                         .store = store,
                         .claims_problem = problem,
                         .environment = settings.environment,
                         .policy = settings.free_policy,
                         .clock = wire.clock(),
                         .uid = settings.uid});
}

}  // namespace thole::wire
