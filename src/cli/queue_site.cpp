#include "cli/queue_site.hpp"

#include "app/queue/job_list.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/show/overview.hpp"
#include "wire/queue.hpp"
#include "wire/survey.hpp"

namespace thole::cli {

port::JobStore* find_queue(Context& context) {
  wire::Queue* queue = context.wire.find_queue();
  return queue ? &queue->jobs() : nullptr;
}

app::Queue queue_of(Context& context) {
  wire::Queue& queue = context.wire.queue();
  return {queue.jobs(), queue.door(), context.wire.clock()};
}

namespace {

std::string words_of_other_queue(const std::string& directory) {
  return fmt::format("another queue of yours: {}\n  see it by: thole --queue-dir {} jobs", printable(directory),
                     shell_quote(printable(directory)));
}

}  // namespace

void tell_of_other_queues(Context& context) {
  for (const std::string& other : wire::directories(context.wire).other_queues) context.note(words_of_other_queue(other));
}

Error nothing_submitted(Context& context) {
  const std::vector<std::string> others = wire::directories(context.wire).other_queues;
  return Error(ErrorCode::usage, "nothing has been submitted yet")
      .hint(others.empty() ? "such as: thole submit python train.py" : words_of_other_queue(others.front()));
}

app::Queue existing_queue(Context& context) {
  if (!find_queue(context)) throw nothing_submitted(context);
  return queue_of(context);
}

app::GoingOn going_on(Context& context) {
  return {queue_of(context), [&context](const std::string& why) { context.warn("nothing can be started now: " + why); }, true};
}

void keep_going(Context& context) {
  going_on(context).look();
  const app::Queue queue = queue_of(context);
  const std::string disk = queue.door.read_only_disk();
  if (!disk.empty() && app::has_work(queue.store, queue.clock.wall())) context.warn(app::why_perhaps_old(disk));
}

std::string queue_directory(Context& context) { return context.wire.queue().directory(); }

app::SubmitSite submit_site(Context& context) {
  const wire::Settings& settings = context.wire.settings();
  return {queue_of(context).store, settings.environment, context.wire.glance(), context.wire.observer(),
          settings.status_patience, context.wire.processes(), wire::shell_above};
}

}  // namespace thole::cli
