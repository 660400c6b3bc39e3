#include "host/drm/clients.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/text.hpp"

namespace thole::host {

namespace {

// "1024 KiB", "3 MiB", "4096" (bytes).
std::optional<std::uint64_t> parse_kib(std::string_view value) {
  auto space = value.find(' ');
  auto amount = parse_u64(value.substr(0, space));
  if (!amount) return std::nullopt;
  std::string_view unit = space == value.npos ? "" : trim(value.substr(space));
  if (unit == "KiB") return amount;
  if (unit == "MiB" && *amount <= UINT64_MAX / 1024) return *amount * 1024;
  if (unit.empty()) return *amount / 1024 + (*amount % 1024 != 0);
  return std::nullopt;
}

// The number of a region on the device: "vram" and "vram0" -> 0, "local1" -> 1; nothing for system memory.
std::optional<unsigned> local_region(std::string_view region) {
  for (std::string_view kind : {"vram", "local"}) {
    if (!region.starts_with(kind)) continue;
    std::string_view number = region.substr(kind.size());
    if (number.empty()) return 0;
    auto index = parse_u64(number);
    if (index && *index < 64) return static_cast<unsigned>(*index);
  }
  return std::nullopt;
}

enum class Engine { compute, graphics, other };
Engine engine_kind(std::string_view name) {
  for (std::string_view compute : {"compute", "ccs"})
    if (name == compute) return Engine::compute;
  for (std::string_view graphics : {"gfx", "render", "rcs"})
    if (name == graphics) return Engine::graphics;
  return Engine::other;
}

// "120000 ns" or, in cycles (xe), "37561".
bool nonzero(std::string_view value) { return parse_u64(value.substr(0, value.find(' '))).value_or(0) > 0; }

void worked_on(DrmClient& client, std::string_view engine, std::string_view amount) {
  if (!nonzero(amount)) return;
  client.compute |= engine_kind(engine) == Engine::compute;
  client.graphics |= engine_kind(engine) == Engine::graphics;
}

struct Memory {
  std::map<unsigned, std::uint64_t> resident, memory, total;  // newer drivers write all three; what is resident counts
};

void take(DrmClient& client, Memory& memory, std::string_view key, std::string_view value) {
  auto after = [&key](std::string_view prefix) {
    return key.starts_with(prefix) ? key.substr(prefix.size()) : std::string_view();
  };
  auto add = [&](std::map<unsigned, std::uint64_t>& to, std::string_view region) {
    auto index = local_region(region);
    auto kib = parse_kib(value);
    if (index && kib) to[*index] = *kib;
  };
  if (key == "drm-driver") client.driver = value;
  else if (key == "drm-client-id") client.id = parse_u64(value).value_or(0);
  else if (auto region = after("drm-resident-"); !region.empty()) add(memory.resident, region);
  else if (region = after("drm-memory-"); !region.empty()) add(memory.memory, region);
  else if (region = after("drm-total-"); !region.empty() && !region.starts_with("cycles-")) add(memory.total, region);
  else if (key.starts_with("drm-engine-capacity-")) return;
  else if (auto engine = after("drm-engine-"); !engine.empty()) worked_on(client, engine, value);
  else if (engine = after("drm-cycles-"); !engine.empty()) worked_on(client, engine, value);
}

// "renderD128" for a descriptor of that node, "" for any other. The target is only read, never followed: it may be a file on a
// server that does not answer.
std::string drm_node(const std::string& descriptor) {
  constexpr std::string_view directory = "/dev/dri/";
  std::array<char, 64> target;
  ssize_t length = ::readlink(descriptor.c_str(), target.data(), target.size());
  std::string_view text(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return text.starts_with(directory) ? std::string(text.substr(directory.size())) : "";
}

}  // namespace

std::optional<std::uint64_t> DrmClient::memory_kib() const {
  if (local_kib.empty()) return std::nullopt;
  std::uint64_t sum = 0;
  for (const auto& [region, kib] : local_kib) sum += kib;
  return sum;
}

std::optional<DrmClient> parse_drm_fdinfo(std::string_view text) {
  DrmClient client;
  Memory memory;
  for (std::string_view line : split_lines(text)) {
    auto colon = line.find(':');
    if (colon != line.npos) take(client, memory, line.substr(0, colon), trim(line.substr(colon + 1)));
  }
  if (client.driver.empty()) return std::nullopt;
  client.local_kib = !memory.resident.empty() ? memory.resident : !memory.memory.empty() ? memory.memory : memory.total;
  return client;
}

DrmDescriptors find_drm_descriptors(const Tree& tree, std::size_t most) {
  DrmDescriptors found;
  // Under hidepid other users' processes are not even listed; in a pid namespace none outside it is.
  found.complete = tree.exists("/proc/1/status") && !in_pid_namespace(tree);
  std::size_t looked_at = 0;
  for (unsigned pid : tree.numbered("/proc", "")) {
    const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
    if (::access(tree.at(directory).c_str(), R_OK | X_OK) != 0) {
      if (errno != ENOENT) found.complete = false;
      continue;
    }
    for (unsigned number : tree.numbered(directory, "")) {
      if (++looked_at > most) {
        found.complete = false;
        return found;
      }
      std::string node = drm_node(tree.at(directory + "/" + std::to_string(number)));
      if (!node.empty()) found.list.push_back({static_cast<pid_t>(pid), number, std::move(node)});
    }
  }
  return found;
}

std::vector<DrmClient> drm_clients(const Tree& tree, const DrmDescriptors& descriptors, const std::vector<std::string>& nodes) {
  std::vector<DrmClient> clients;
  std::set<std::uint64_t> seen;
  for (const DrmDescriptor& descriptor : descriptors.list) {
    if (std::find(nodes.begin(), nodes.end(), descriptor.node) == nodes.end()) continue;
    auto text = tree.text("/proc/" + std::to_string(descriptor.pid) + "/fdinfo/" + std::to_string(descriptor.number));
    auto client = text ? parse_drm_fdinfo(*text) : std::nullopt;
    if (!client || !seen.insert(client->id).second) continue;
    client->pid = descriptor.pid;
    clients.push_back(std::move(*client));
  }
  return clients;
}

std::vector<model::GpuProcess> as_processes(const std::vector<DrmClient>& clients, std::optional<unsigned> region) {
  struct Sum {
    std::optional<std::uint64_t> kib;
    bool compute = false, graphics = false;
  };
  std::map<pid_t, Sum> by_pid;
  for (const DrmClient& client : clients) {
    std::optional<std::uint64_t> kib = client.memory_kib();
    if (region && kib) {
      auto part = client.local_kib.find(*region);
      kib = part == client.local_kib.end() ? 0 : part->second;
    }
    const bool has_run = client.compute || client.graphics;
    if (kib.value_or(0) == 0 && (!has_run || region)) continue;
    Sum& sum = by_pid[client.pid];
    if (kib) sum.kib = sum.kib.value_or(0) + *kib;
    sum.compute |= client.compute;
    sum.graphics |= client.graphics;
  }
  std::vector<model::GpuProcess> processes;
  for (const auto& [pid, sum] : by_pid) {
    model::GpuProcess& process = processes.emplace_back();
    process.pid = pid;
    using enum model::GpuProcess::Kind;  // memory without engine time: about to compute, as far as anybody can tell
    process.kind = sum.graphics ? (sum.compute ? both : graphics) : compute;
    if (sum.kib) process.memory_mib = (*sum.kib + 1023) / 1024;
  }
  return processes;
}

}  // namespace thole::host
