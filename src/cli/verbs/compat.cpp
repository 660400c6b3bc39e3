// compat: becomes a command whose Python programs find thole's safe_gpu, GPUtil, gpu_affinity and dragon in place of the
// originals.
//
// How this works: Python imports a module named sitecustomize from PYTHONPATH when it starts. The Python package brings one
// that puts the drop-ins in front, in the command and in every Python below it (python/tholepin/compat/start).
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"

namespace thole::cli {

namespace {

constexpr Option compat_options[] = {
  {0, "wait", "TIME", "claims in the program wait at most this long, such as 30m (default: as long as it takes)",
   [](model::Request& r, const Word& w) { r.wait = duration_of(w); }},
  {0, "no-wait", "", "claims in the program fail at once where too few are free, as safe-gpu's do",
   [](model::Request& r, const Word&) { r.wait = Seconds{0}; }},
};

namespace fs = std::filesystem;

constexpr const char* start_folder = "compat/start";

// The package's start folder and its library, by the program's own path: in the wheel, installed, in a build folder.
struct Package {
  fs::path start, libthole;
};

std::optional<Package> package_beside(const fs::path& program) {
  const fs::path here = program.parent_path();
  const Package candidates[] = {
      {here / "../.." / start_folder, here / "../lib/libthole.so.0"},
      {here / "../share/thole/python/tholepin" / start_folder, here / "../lib/libthole.so.0"},
      {here / "../python/tholepin" / start_folder, here / "libthole.so.0"},
  };
  std::error_code ignored;  // what cannot be looked at is not there
  for (const Package& one : candidates)
    if (fs::exists(one.start / "sitecustomize.py", ignored)) return Package{fs::canonical(one.start), one.libthole};
  return std::nullopt;
}

int compat(Context& context) {
  const wire::Settings& settings = context.wire.settings();
  const auto package = package_beside(settings.program);
  if (!package)
    throw Error(ErrorCode::unavailable, "thole's Python package is not beside this program")
        .about(settings.program)
        .hint("pip install . in a checkout of thole, and call the thole that it brings");

  port::ProcessSpec spec;
  spec.argv = context.invocation.words;
  spec.set = context.carry();
  const auto had = settings.environment.find("PYTHONPATH");
  spec.set["PYTHONPATH"] = package->start.string();
  if (had != settings.environment.end() && !had->second.empty()) spec.set["PYTHONPATH"] += ":" + had->second;
  if (!settings.environment.contains("THOLE_PROGRAM")) spec.set["THOLE_PROGRAM"] = settings.program;
  std::error_code ignored;
  if (!settings.environment.contains("THOLE_LIBRARY") && fs::exists(package->libthole, ignored))
    spec.set["THOLE_LIBRARY"] = fs::canonical(package->libthole).string();
  if (const auto wait = context.invocation.request.wait)
    spec.set["THOLE_WAIT"] = fmt::format("{}s", std::chrono::ceil<Seconds>(*wait).count());
  context.wire.processes().become(spec);
  return 0;  // not reached
}

constexpr Example compat_examples[] = {
  {"thole compat -- python train.py", "safe_gpu.claim_gpus() waits in line, what GPUtil picks is claimed"},
  {"thole compat -- torchrun --nproc-per-node 8 train.py", "ranks that call gpu_affinity.set_affinity()"},
  {"thole compat -- python gpu_pool.py", "Dragon's pools and groups, in place of dragon gpu_pool.py"},
};

}  // namespace

extern constexpr Verb compat_verb = {
    .name = "compat",
    .group = "run",
    .summary = "run a program of safe_gpu, GPUtil, gpu_affinity or Dragon on claims",
    .operands = "COMMAND [ARGUMENT...]",
    .options = compat_options,
    .examples = compat_examples,
    .offer = Offer::command,
    .min_words = 1,
    .max_words = ~std::size_t{0},
    .run = compat,
};

}  // namespace thole::cli
