#include <unistd.h>

#include <string>

#include "app/show/overview_json.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/result_target.hpp"
#include "cli/show/overview.hpp"
#include "cli/show/render.hpp"
#include "cli/show/terminal.hpp"
#include "cli/show/topo.hpp"

namespace thole::cli {

namespace {

struct TopoOptions {
  std::string svg;  // "" = text, "-" = the picture on stdout
  bool matrix = false;
};

constexpr Option topo_options[] = {
  {0, "svg", "FILE", "draw it as a vector picture into FILE (- is stdout)",
   [](TopoOptions& o, const Word& w) { o.svg = text_of(w); }, Offer::files},
  {0, "matrix", "", "how every two devices are joined, in the table of `nvidia-smi topo -m`, for every vendor",
   [](TopoOptions& o, const Word&) { o.matrix = true; }},
};

void refuse_two_results(const Invocation& invocation) {
  const TopoOptions& options = invocation.own.as<TopoOptions>();
  if (!options.svg.empty() && (options.matrix || invocation.global.json))
    throw Error(ErrorCode::usage, "--svg draws one picture")
        .about(options.matrix ? "--matrix" : "--json")
        .hint("leave one of the two out, or call thole twice");
}

int topo(Context& context) {
  refuse_two_results(context.invocation);
  const TopoOptions& options = context.invocation.own.as<TopoOptions>();
  if (!options.svg.empty()) refuse_input_as_result(context, "--svg", options.svg);
  const app::Overview overview = look_over(context, wire::IfUnknown::tell);
  const std::string problem = context.wire.observer().topology_problem();
  if (!problem.empty()) context.warn("topology: " + printable(problem));
  if (options.matrix) {
    if (context.invocation.global.json) context.print_json(matrix_to_json(overview.snapshot.machine));
    else context.print(render_matrix(overview.snapshot.machine, columns_of_terminal(STDOUT_FILENO)));
  } else if (context.invocation.global.json) {
    context.print_json(status_to_json(overview));
  } else if (!options.svg.empty()) {
    write_result(options.svg, render_topo_svg(overview));
  } else {
    context.print(render_topo(overview, context.screen));
  }
  return 0;
}

constexpr Example topo_examples[] = {
  {"thole topo", "CPUs, memory, GPUs and NICs, what is near what, and who has which GPU"},
  {"thole topo --svg machine.svg", "the same as a picture"},
  {"thole --machine mi250x topo --matrix", "how GPUs and NICs are joined, pair by pair"},
};

}  // namespace

extern constexpr Verb topo_verb = {
    .name = "topo",
    .group = "machine",
    .summary = "draw the machine: what is near what, and who has it",
    .options = topo_options,
    .examples = topo_examples,
    .run = topo,
};

}  // namespace thole::cli
