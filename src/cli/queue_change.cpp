#include "cli/queue_change.hpp"

namespace thole::cli {

void print_change(const Context& context, const model::Json& json) {
  try {
    context.print_json(json);
  } catch (const Error& error) {
    throw Error(error.code(), "what was asked is stored, but that cannot be written").because(error.sys_errno());
  }
}

}  // namespace thole::cli
