#include "cli/line/binding.hpp"

#include "base/error.hpp"

namespace thole::cli {

void check_binding(const Invocation& line) {
  const model::BindWishes& binding = line.binding;
  if (binding.off && (binding.mode || binding.memory || binding.smt || binding.nic || binding.threads || binding.reserve ||
                      binding.lend || binding.balanced || binding.strict))
    throw Error(ErrorCode::usage, "--no-bind leaves nothing for other words about binding to say");
}

}  // namespace thole::cli
