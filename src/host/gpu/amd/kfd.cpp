#include "host/gpu/amd/kfd.hpp"

#include <climits>
#include <string>

#include "base/text.hpp"

namespace thole::host::amd {

namespace {

// Device-local memory: heap types "frame buffer, public" (1) and "private" (2).
std::optional<std::uint64_t> memory_bytes(const Tree& tree, const std::string& node) {
  std::optional<std::uint64_t> sum;
  for (unsigned bank : tree.numbered(node + "/mem_banks", "")) {
    auto text = tree.text(node + "/mem_banks/" + std::to_string(bank) + "/properties");
    auto heap = text ? number_field(*text, "heap_type") : std::nullopt;
    auto size = text ? number_field(*text, "size_in_bytes") : std::nullopt;
    if (size && (heap == 1u || heap == 2u)) sum = sum.value_or(0) + *size;
  }
  return sum;
}

std::vector<KfdLink> read_links(const Tree& tree, const std::string& node) {
  std::vector<KfdLink> links;
  const std::string directory = node + "/io_links/";
  for (unsigned number : tree.numbered(directory, ""))
    if (auto text = tree.text(directory + std::to_string(number) + "/properties")) links.push_back(parse_kfd_link(*text));
  return links;
}

}  // namespace

KfdNode parse_kfd_properties(std::string_view text) {
  KfdNode node;
  auto take = [text](const char* key) { return number_field(text, key).value_or(0); };
  node.simd_count = take("simd_count");
  node.cpu_cores = take("cpu_cores_count");
  node.location = take("location_id");
  node.domain = take("domain");
  node.unique_id = take("unique_id");
  node.device_id = take("device_id");
  node.gfx_version = take("gfx_target_version");
  if (auto minor = take("drm_render_minor"); minor > 0 && minor <= UINT_MAX) node.render_minor = static_cast<unsigned>(minor);
  if (auto bytes = take("local_mem_size"); bytes > 0) node.memory_bytes = bytes;
  return node;
}

KfdLink parse_kfd_link(std::string_view text) {
  KfdLink link;
  if (auto to = number_field(text, "node_to"); to && *to <= UINT_MAX) link.to = static_cast<unsigned>(*to);
  link.type = number_field(text, "type").value_or(0);
  link.weight = number_field(text, "weight");
  link.min_bandwidth = number_field(text, "min_bandwidth");
  link.max_bandwidth = number_field(text, "max_bandwidth");
  return link;
}

std::vector<KfdNode> read_kfd(const Tree& tree, bool with_links) {
  std::vector<KfdNode> nodes;
  for (unsigned number : tree.numbered(kfd_nodes, "")) {
    const std::string directory = kfd_nodes + ("/" + std::to_string(number));
    auto text = tree.text(directory + "/properties");
    if (!text) continue;
    KfdNode node = parse_kfd_properties(*text);
    if (node.simd_count == 0) continue;  // a CPU
    node.node = number;
    node.gpu_id = tree.number(directory + "/gpu_id");
    if (auto bytes = memory_bytes(tree, directory)) node.memory_bytes = bytes;
    if (with_links) node.links = read_links(tree, directory);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace thole::host::amd
