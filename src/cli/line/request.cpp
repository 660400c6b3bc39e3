#include "cli/line/request.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::cli {

namespace {

std::string_view later_of_waits(const Invocation& line) {
  const auto is_one = [](std::string_view name) { return name == "wait" || name == "no-wait"; };
  return *std::find_if(line.options.rbegin(), line.options.rend(), is_one);
}

}  // namespace

void check_request(Invocation& line) {
  model::Request& request = line.request;
  if (line.given("gpus") && request.gpus == 0 && line.given("on"))
    throw Error(ErrorCode::usage, "-g 0 asks for no GPU, and --on names some").hint("one of the two");
  if (request.share && !request.memory_mib)
    throw Error(ErrorCode::usage, "--share needs a memory budget").hint("such as: --share --memory 8G");
  if (line.given("share-with") && !request.share) throw Error(ErrorCode::usage, "--share-with goes with --share");
  if (request.share && !line.given("beside")) request.beside = model::Beside::mine;
  if (line.given("wait") && line.given("no-wait"))   // the later wins as ever, so that an alias can be overridden
    line.remarks.push_back(
        fmt::format("--wait and --no-wait exclude each other: the later counts, --{}", later_of_waits(line)));
  if ((line.given("max-load") || line.given("max-memory")) && request.beside == model::Beside::none)
    throw Error(ErrorCode::usage, "--max-load and --max-memory go with --beside")
        .hint("such as: --beside any --max-load 20%");
}

}  // namespace thole::cli
