// Starting a process for a library's caller, who watches it himself.
#include <cstdint>

#include "base/error.hpp"
#include "capi/handles.hpp"
#include "model/json.hpp"
#include "model/json_field.hpp"

namespace thole::capi {

namespace {

std::vector<std::string> words_of(const char* const* words) {
  std::vector<std::string> result;
  for (; words && *words; ++words) result.emplace_back(*words);
  return result;
}

model::CpuSet cpus_of(const model::Field& field) {
  const auto cpus = model::CpuSet::parse(field.text());
  if (!cpus || cpus->empty()) field.fail("\"" + printable(field.text(), 60) + "\" is no list of CPUs such as \"0-3,8\"");
  return *cpus;
}

constexpr std::uint64_t most_nodes = 1024;  // as many as a kernel can be built for

// What thole_claim_ranks answers for one process can be passed as it is: the rest of it is not read here.
void read_binding(port::ProcessSpec& spec, const char* text) {
  if (!text) return;
  const model::Json json = model::parse_json(text, "binding");
  const model::Field root(json, "binding");
  root.must_be_object();
  if (const model::Field cpus = root.at("cpus"); !cpus.null()) spec.binding.cpus = cpus_of(cpus);
  if (const model::Field memory = root.at("memory"); !memory.null())
    spec.binding.memory = memory.one_of(model::parse_memory_policy, "first-touch, preferred, bind, interleave");
  root.at("memory_nodes").each([&](const model::Field& node) {
    spec.binding.memory_nodes.push_back(static_cast<int>(node.whole(most_nodes - 1)));
  });
  spec.strict = root.at("strict").flag_or(false);
}

}  // namespace

}  // namespace thole::capi

int thole_start(const char* const* argv, const char* const* environment, const char* directory, const char* binding,
                const int* descriptors, int life, int* end, thole_error** error) {
  using namespace thole;
  wire::Started process;
  const auto* started = capi::guarded(error, [&]() -> const wire::Started* {
    capi::given(end, "end");
    port::ProcessSpec spec;
    spec.argv = capi::words_of(argv);
    const std::vector<std::string> base = capi::words_of(environment);
    if (environment) spec.base = &base;
    if (directory) spec.cwd = directory;
    capi::read_binding(spec, binding);
    for (const int* pair = descriptors; pair && *pair >= 0; pair += 2) spec.numbered.emplace_back(pair[0], pair[1]);
    spec.own_group = true;
    spec.life = life;
    process = wire::start_process(spec);
    return &process;
  });
  if (!started) return -1;
  *end = process.end.release();
  return process.pid;
}
