#include "wire/overview.hpp"

#include "base/error.hpp"
#include "host/user_namespace.hpp"

namespace thole::wire {

app::Overview overview_of(Wire& wire, const app::Observer& observer, IfUnknown if_unknown) {
  const Settings& settings = wire.settings();
  port::ClaimStore* store = nullptr;
  std::string problem;
  try {
    store = wire.find_store();
  } catch (const host::OwnersHidden& error) {
    if (if_unknown == IfUnknown::refuse) throw;
    problem = error.full();
  } catch (const Error& error) {
    problem = error.full();
  }
  return app::look_over({.observer = observer,
                         .store = store,
                         .claims_problem = problem,
                         .environment = settings.environment,
                         .policy = settings.free_policy,
                         .common_policy = settings.of_the_site,
                         .clock = wire.clock(),
                         .uid = settings.uid});
}

}  // namespace thole::wire
