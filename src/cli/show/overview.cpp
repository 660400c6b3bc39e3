#include "cli/show/overview.hpp"

namespace thole::cli {

app::Overview look_over(Context& context, wire::IfUnknown if_unknown) {
  app::Observer& observer = context.wire.observer();
  observer.look(context.wire.settings().status_patience);
  // After the driver, which may take seconds: who has what is shown as it is now.
  return wire::overview_of(context.wire, observer, if_unknown);
}

app::Overview glance_over(Context& context) {
  return wire::overview_of(context.wire, context.wire.glance(), wire::IfUnknown::tell);
}

}  // namespace thole::cli
