#include "wire/init.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

int init(Context& context) {
  const InitOptions& options = context.invocation.init;
  const wire::InitReport report = wire::init(context.wire, {.group = options.group,
                                                            .everybody = options.no_group,
                                                            .take_back = options.take_back,
                                                            .force = options.force});
  const int status = report.not_taken_back == 0 ? 0 : exit_status(ErrorCode::unavailable);
  for (const std::string& caution : report.cautions) context.warn(caution);
  if (context.invocation.global.json) {
    context.print_json({{"schema", "thole/init/1"},
                        {"directory", report.directory},
                        {"units", report.units},
                        {"freed", report.freed},
                        {"not_taken_back", report.not_taken_back},
                        {"group", model::or_null(report.group)}});
    return status;
  }
  std::string text = fmt::format("{}: {} can be claimed", report.directory,
                                 report.units == 1 ? "1 GPU" : fmt::format("{} GPUs", report.units));
  if (!report.group.empty()) text += fmt::format(" by members of {}", report.group);
  if (report.freed != 0) text += fmt::format("; {} that vanished forgotten", report.freed);
  text += "\n";
  if (report.old_access != 0)
    text += fmt::format("{} held since before this group; run it again later\n",
                        report.old_access == 1 ? "1 node is" : fmt::format("{} nodes are", report.old_access));
  context.print(text);
  return status;
}

}  // namespace thole::cli
