#include "wire/init.hpp"

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

namespace {

struct InitOptions {
  std::string group;        // nodes become 0660 of this group
  bool no_group = false;    // and 0666 again
  std::vector<std::string> take_back;
  bool force = false;
};

constexpr Option init_options[] = {
  {0, "group", "GROUP", "only members of GROUP may claim, from now on and after every start of the machine",
   [](InitOptions& o, const Word& w) { o.group = text_of(w); o.no_group = false; }, Offer::groups},
  {0, "no-group", "", "everybody may claim again", [](InitOptions& o, const Word&) { o.no_group = true; o.group.clear(); }},
  {0, "force", "",
   "go on although GPUs are claimed in a directory without root's protection; with --take-back: take it from anybody",
   [](InitOptions& o, const Word&) { o.force = true; }},
  {0, "take-back", "GPU,...", "make these claimable anew, whoever holds them; what still runs there is named",
   [](InitOptions& o, const Word& w) { o.take_back = gpus_of(w); }, Offer::gpus},
};

int init(Context& context) {
  const InitOptions& options = context.invocation.own.as<InitOptions>();
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

constexpr Example init_examples[] = {
  {"sudo thole init", "make /run/thole and a node for each GPU"},
  {"sudo thole init --group gpu", "the same, for members of the group gpu only"},
  {"sudo thole init --take-back 3", "when GPU 3 is kept by a process that cannot be ended"},
};

}  // namespace

extern constexpr Verb init_verb = {
    .name = "init",
    .group = "machine",
    .summary = "make the state directory",
    .options = init_options,
    .examples = init_examples,
    .run = init,
};

}  // namespace thole::cli
