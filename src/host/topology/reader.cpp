#include "host/topology/reader.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/probe/runner.hpp"
#include "host/topology/from_hwloc.hpp"
#include "host/topology/hwloc_scan.hpp"
#include "model/json.hpp"

extern char** environ;

namespace thole::host {

namespace {

using model::Json;

constexpr Millis xml_patience{20'000};

std::string question(const TopologyReaderOptions& options, const char* what, const std::string& where) {
  return model::dump(Json{{"read", what}, {"path", where}, {"library", options.hwloc_library}}, -1);
}

std::string describe(const ProbeOutcome& outcome) {
  switch (outcome.end) {
    case ProbeOutcome::End::complete: return "";
    case ProbeOutcome::End::timed_out: return "it took too long; a device that does not answer shows in dmesg";
    case ProbeOutcome::End::crashed: return outcome.detail;
    default: return outcome.detail;
  }
}

// Nothing of the caller's may tell hwloc of another machine than this one, and no plugin be loaded: those of the vendors wake
// GPUs and hang with them.
void take_over_environment(const std::string& root) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry)
    if (std::string_view(*entry).starts_with("HWLOC_")) names.emplace_back(*entry, std::string_view(*entry).find('='));
  for (const std::string& name : names) ::unsetenv(name.c_str());
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  ::setenv("HWLOC_HIDE_ERRORS", "2", 1);
  if (!root.empty()) ::setenv("HWLOC_FSROOT", root.c_str(), 1);
}

std::string own_path() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown).string();
}

Json answer_xml(const std::string& path, const std::vector<std::string>& paths) {
  const auto text = read_file(path, 256u << 20);
  if (!text) throw Error(ErrorCode::usage, "cannot read the topology file").about(printable(path, 200)).because(errno);
  auto loaded = load_hwloc(paths);
  if (const auto* failure = std::get_if<HwlocFailure>(&loaded))
    throw Error(ErrorCode::unavailable, "libhwloc is needed to read this file: " + printable(failure->why, 200))
        .about(printable(path, 200)).hint("sudo apt-get install libhwloc15");
  return {{"machine", model::to_json(machine_of(scan_xml(std::get<HwlocFunctions>(loaded), *text, path)))}};
}

void answer(const Json& asked, const ProbeChannel& channel) {
  const auto paths = hwloc_paths(asked.at("library").get<std::string>(), own_path());
  const auto path = asked.at("path").get<std::string>();
  const bool xml = asked.at("read") == "xml";
  take_over_environment(xml ? "" : path);
  if (!xml) {
    const std::string text = to_text(read_topology(Tree(path), paths));
    for (std::string_view line : split_lines(text)) channel.send(line);
    return;
  }
  Json told;
  try {
    told = answer_xml(path, paths);
  } catch (const Error& error) {
    told = {{"error", {{"usage", error.code() == ErrorCode::usage}, {"message", error.what()}, {"about", error.object()},
                       {"errno", error.sys_errno()}, {"hint", error.hint()}}}};
  }
  const std::string text = model::dump(told, 1);
  for (std::string_view line : split_lines(text)) channel.send(line);
}

[[noreturn]] void rethrow(const Json& told) {
  throw Error(told.at("usage").get<bool>() ? ErrorCode::usage : ErrorCode::unavailable, told.at("message").get<std::string>())
      .about(told.at("about").get<std::string>())
      .because(told.at("errno").get<int>())
      .hint(told.at("hint").get<std::string>());
}

}  // namespace

Topology TopologyReader::read_machine(const std::string& root, Millis patience) const {
  // The lock and the memory of answers are about this machine; a captured tree is another one each time, and cannot hang.
  ProbeRunner probe({options_.program, {"__probe", "topology"}, root.empty() ? options_.runtime_dir : "", "probe-topology"});
  std::string text;
  const ProbeOutcome outcome = probe.ask(question(options_, "machine", root), patience, [&](std::string_view line) {
    text.append(line).push_back('\n');
    return std::nullopt;
  });
  Topology failed;
  failed.problem = "the CPUs could not be read, so nothing is bound to them: " + printable(describe(outcome), 200);
  if (outcome.end != ProbeOutcome::End::complete) return failed;
  if (auto topology = topology_from_text(text)) return std::move(*topology);
  failed.problem += "the probe's answer is not understood";
  return failed;
}

model::Machine TopologyReader::read_xml(const std::string& path) const {
  // No lock and no memory of answers: the file is the user's, and reading it touches no device.
  ProbeRunner probe({options_.program, {"__probe", "topology"}, "", "probe-topology"});
  std::string text;
  const ProbeOutcome outcome = probe.ask(question(options_, "xml", path), xml_patience, [&](std::string_view line) {
    text += line;
    return std::nullopt;
  });
  if (outcome.end != ProbeOutcome::End::complete)
    throw Error(ErrorCode::usage, "hwloc failed on it: " + describe(outcome)).about(printable(path, 200));
  const Json told = model::parse_json(text, "the probe's answer");
  if (told.contains("error")) rethrow(told.at("error"));
  return model::machine_from_json(told.at("machine"), printable(path, 200));
}

int serve_topology_probe(ProbeChannel channel) {
  for (;;) {
    if (const auto line = channel.next_line()) {
      answer(model::parse_json(*line, "the question"), channel);
      channel.end_answer();
      return 0;
    }
    if (!channel.fill()) return 0;
  }
}

}  // namespace thole::host
