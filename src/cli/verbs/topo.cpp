#include <unistd.h>

#include "app/show/overview_json.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/result_place.hpp"
#include "cli/show/overview.hpp"
#include "cli/show/render.hpp"
#include "cli/show/terminal.hpp"
#include "cli/show/topo.hpp"

namespace thole::cli {

namespace {

void check(const Invocation& invocation) {
  const TopoOptions& options = invocation.topo;
  if (!options.svg.empty() && (options.matrix || invocation.global.json))
    throw Error(ErrorCode::usage, "--svg draws one picture")
        .about(options.matrix ? "--matrix" : "--json")
        .hint("leave one of the two out, or call thole twice");
}

}  // namespace

int topo(Context& context) {
  check(context.invocation);
  const TopoOptions& options = context.invocation.topo;
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
    write_result(result_place(options.svg), render_topo_svg(overview));
  } else {
    context.print(render_topo(overview, context.screen));
  }
  return 0;
}

}  // namespace thole::cli
