#include "host/drm/device.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

std::vector<std::string> DrmNodes::names() const {
  std::vector<std::string> names;
  if (card) names.push_back("card" + std::to_string(*card));
  if (render) names.push_back("renderD" + std::to_string(*render));
  return names;
}

DrmNodes drm_nodes(const Tree& tree, const std::string& device) {
  DrmNodes nodes;
  auto first = [&](const char* prefix) -> std::optional<unsigned> {
    auto numbers = tree.numbered(device + "/drm", prefix);
    return numbers.empty() ? std::nullopt : std::optional(numbers.front());
  };
  nodes.card = first("card");
  nodes.render = first("renderD");
  return nodes;
}

model::Metric<bool> drives_display(const Tree& tree, const std::string& device) {
  auto card = drm_nodes(tree, device).card;
  if (!card) return {};
  const std::string name = "card" + std::to_string(*card), directory = device + "/drm/" + name + "/";
  for (const std::string& connector : tree.names(directory))
    if (connector.starts_with(name + "-") && tree.text(directory + connector + "/enabled") == "enabled") return true;
  return false;
}

std::string sensors_of(const Tree& tree, const std::string& device) {
  auto numbers = tree.numbered(device + "/hwmon", "hwmon");
  return numbers.empty() ? "" : device + "/hwmon/hwmon" + std::to_string(numbers.front());
}

bool asleep(const Tree& tree, const std::string& device) { return tree.text(device + "/power/runtime_status") == "suspended"; }

bool off_the_bus(const Tree& tree, const std::string& device) {
  if (asleep(tree, device)) return false;
  auto config = read_file(tree.at(device + "/config"), 64);
  return config && config->size() >= 4 && config->substr(0, 4) == std::string(4, '\xff');
}

std::string access_problem(const Tree& tree, const std::string& node) {
  if (!tree.exists("/dev") || tree.readable_and_writable(node)) return "";
  if (!tree.exists(node)) return fmt::format("{} does not exist here: in a container, pass it in (--device {})", node, node);
  return fmt::format("{} may not be opened by this user: join the group that owns it, usually with"
                     " \"sudo usermod -aG render $USER\", and log in again", node);
}

}  // namespace thole::host
