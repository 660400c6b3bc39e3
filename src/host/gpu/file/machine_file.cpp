#include "host/gpu/file/machine_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/gpu/file/search.hpp"
#include "host/gpu/file/shorthand.hpp"
#include "host/import/from_matrix.hpp"
#include "host/topology/complete.hpp"
#include "host/user_name.hpp"
#include "model/json.hpp"

namespace thole::host {

namespace {

[[noreturn]] void refuse_unknown(const std::string& name, const std::vector<std::string>& directories) {
  std::vector<std::string> known = shipped_machines(directories);
  std::string hint;
  if (::access(name.c_str(), F_OK) == 0) hint = fmt::format("the file here: ./{}; ", printable(name, 80));
  if (auto near = nearest(name, known)) hint = "nearest: " + *near + "; ";
  hint += known.empty() ? std::string("no shipped machines were found beside the program: ")
                        : "shipped: " + join(known, ", ") + "; or ";
  throw Error(ErrorCode::usage, "no such simulated machine")
      .about(printable(name, 80))
      .hint(hint + "a file's path, or a shorthand such as 8xA100");
}

}  // namespace

MachineFile::MachineFile(const std::string& name, const std::vector<std::string>& directories, ReadTopology read_topology)
    : read_topology_(std::move(read_topology)) {
  if (auto path = machine_path(name, directories)) {
    path_ = *path;
    load();
    return;
  }
  auto machine = shorthand_machine(name);
  if (!machine) refuse_unknown(name, directories);
  machine_ = std::move(*machine);
}

std::optional<MachineFile::Stamp> MachineFile::stamp() const {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) return std::nullopt;
  std::int64_t modified = std::int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + now.st_mtim.tv_nsec;
  return Stamp{.device = now.st_dev, .inode = now.st_ino, .size = now.st_size, .modified_ns = modified};
}

void MachineFile::load() {
  // Stamped before it is read: an edit in between is seen as a change. One so recent that another could follow under the
  // same clock tick (4 ms with HZ=250) is not trusted to be the last.
  loaded_ = stamp();
  std::int64_t now = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  if (loaded_ && now - loaded_->modified_ns < 20'000'000) loaded_.reset();
  auto text = read_file(path_);
  if (!text)
    throw Error(ErrorCode::usage, "cannot read the machine file").about(printable(path_, 200)).because(errno);
  if (has_matrix(*text) || trim(*text).starts_with('<')) {
    const std::string name = shell_quote(printable(path_, 200));
    throw Error(ErrorCode::usage, "this is another program's topology, and no machine file").about(printable(path_, 200))
        .hint(fmt::format("thole capture --from {} -o machine.json, then: --machine machine.json", name));
  }
  machine_ = model::machine_from_json(model::parse_json(*text, printable(path_, 200)), printable(path_, 200));
  if (!machine_.hwloc_xml.empty()) add_topology();
  if (machine_.name.empty()) machine_.name = path_.substr(path_.rfind('/') + 1);
  model::for_each_process(machine_.gpus, [](model::GpuProcess& process) {   // it names users: who of them is somebody here
    if (!process.user.empty()) process.uid = user_of_name(process.user);
  });
  watch_.follow(machine_.gpus);
}

void MachineFile::add_topology() {
  std::string xml = machine_.hwloc_xml;
  if (!xml.starts_with('/') && path_.find('/') != path_.npos) xml = path_.substr(0, path_.rfind('/') + 1) + xml;
  if (!read_topology_) throw Error(ErrorCode::usage, "hwloc_xml: this program cannot read it").about(printable(path_, 200));
  complete(machine_, read_topology_(xml));
  machine_.hwloc_xml.clear();   // what it says is here now; elsewhere the path would lead nowhere
}

void MachineFile::refresh() {
  if (path_.empty()) return;
  if (auto now = stamp(); now && now == loaded_) return;
  unread_ = true;
  try {
    load();
    problem_.clear();
  } catch (const Error& error) {  // an editor at work is no failure of whoever waits for a GPU
    problem_ = error.full() + "; the last good reading is used";
  }
}

bool MachineFile::changed() {
  if (watch_.news()) unread_ = true;
  if (unread_ || path_.empty()) return unread_;
  auto now = stamp();
  return !now || now != loaded_;
}

port::Numbering MachineFile::numbering() const {
  const auto now = path_.empty() ? std::nullopt : stamp();
  return {now ? fmt::format("{} {} {} {}", now->device, now->inode, now->size, now->modified_ns) : ""};
}

port::Reading MachineFile::read(Millis, const port::Question&) {
  refresh();
  watch_.news();
  unread_ = false;
  port::Reading reading;
  reading.gpus = machine_.gpus;
  watch_.apply(reading.gpus);
  reading.observation.backend = name();
  reading.observation.source = path_.empty() ? machine_.name : path_;
  reading.observation.problem = problem_;
  reading.observation.answered = std::none_of(reading.gpus.begin(), reading.gpus.end(),
                                              [](const model::Gpu& gpu) { return gpu.health == model::Health::hung; });
  return reading;
}

std::optional<std::uint64_t> MachineFile::peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                                          Millis) {
  refresh();
  std::optional<std::uint64_t> largest;
  for (const model::Gpu& gpu : machine_.gpus) {
    if (std::ranges::find(gpus, gpu.key()) == gpus.end()) continue;
    if (!gpu.accounts) return std::nullopt;
    for (const model::ProcessAccount& account : *gpu.accounts)
      if (from <= account.started && account.started <= to)
        largest = std::max(largest.value_or(0), account.peak_memory_mib);
  }
  return largest;
}

model::Machine MachineFile::around(std::vector<model::Gpu> gpus, Millis) {
  model::Machine machine = machine_;
  machine.gpus = std::move(gpus);
  return machine;
}

}  // namespace thole::host
