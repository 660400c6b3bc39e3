#include "wire/init.hpp"

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

int init(Context& context) {
  const std::string& group = context.invocation.init.group;
  const wire::InitReport report = wire::init(context.wire, group);
  if (context.invocation.global.json) {
    context.print_json({{"schema", "thole/init/1"},
                        {"directory", report.directory},
                        {"units", report.units},
                        {"freed", report.freed},
                        {"group", model::or_null(group)}});
    return 0;
  }
  std::string text = fmt::format("{}: {} can be claimed", report.directory,
                                 report.units == 1 ? "1 GPU" : fmt::format("{} GPUs", report.units));
  if (!group.empty()) text += fmt::format(" by members of {}", group);
  if (report.freed != 0) text += fmt::format("; {} that vanished forgotten", report.freed);
  context.print(text + "\n");
  return 0;
}

}  // namespace thole::cli
