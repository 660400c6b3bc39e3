#include "host/gpu/nvidia/request.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "model/json.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {
namespace {

using port::Purpose;

constexpr std::array purposes{"claim", "show", "examine"};

Purpose parse_purpose(const std::string& word) {
  const auto at = std::find(purposes.begin(), purposes.end(), word);
  if (at == purposes.end()) throw std::runtime_error("no such purpose: " + word);
  return static_cast<Purpose>(at - purposes.begin());
}

}  // namespace

ProbeRequest::Node ProbeRequest::node(std::string_view pci) const {
  const auto address = model::PciAddress::parse(pci);
  for (const Node& node : nodes)
    if (address && model::PciAddress::parse(node.pci) == address) return node;
  return {std::string(pci), ""};
}

std::string ProbeRequest::to_line() const {
  model::Json json{{"library", nvml_path}, {"driver", driver}, {"purpose", purposes[static_cast<std::size_t>(purpose)]},
                   {"only", only}, {"last", last}, {"nodes", model::Json::array()}, {"want_cpus", want_cpus},
                   {"events", events}, {"accounts_of", accounts_of}, {"since_us", since_us}};
  for (const Node& node : nodes)
    json["nodes"].push_back({{"pci", node.pci}, {"path", node.path}, {"named", node.named}, {"known", node.known},
                             {"connectors", node.connectors}});
  return model::dump(json, -1);
}

ProbeRequest ProbeRequest::parse(std::string_view line) {
  const model::Json json = model::Json::parse(line);
  if (!json.is_object()) throw std::runtime_error("not a request");
  ProbeRequest request;
  request.nvml_path = json.value("library", request.nvml_path);
  request.driver = json.value("driver", request.driver);
  request.purpose = parse_purpose(json.value("purpose", std::string("show")));
  request.only = json.value("only", request.only);
  request.last = json.value("last", request.last);
  request.want_cpus = json.value("want_cpus", request.want_cpus);
  request.events = json.value("events", request.events);
  request.accounts_of = json.value("accounts_of", request.accounts_of);
  request.since_us = json.value("since_us", request.since_us);
  for (const model::Json& node : json.value("nodes", model::Json::array()))
    request.nodes.push_back({node.at("pci"), node.value("path", ""), node.value("named", false), node.value("known", false),
                             node.value("connectors", true)});
  return request;
}

}  // namespace thole::host::nvidia
