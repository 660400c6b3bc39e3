#include "cli/claim_search.hpp"

namespace thole::cli {

app::ClaimSearch claim_search(Context& context) {
  const wire::Settings& settings = context.wire.settings();
  return {.store = context.wire.find_store(),
          .environment = settings.environment,
          .uid = settings.uid,
          .directory = [&context](const std::string& id, uid_t owner) { return context.wire.places().find_claim(id, owner); },
          .gpus = [&context]() -> const app::Observer& { return context.wire.glance(); },
          .user_name = wire::user_name,
          .job_of_lane = [&context](pid_t pid) { return context.wire.job_of_lane(pid); },
          .shell = wire::shell_above};
}

}  // namespace thole::cli
