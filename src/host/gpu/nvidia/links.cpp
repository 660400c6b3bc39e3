// How this works. Where NVSwitches join the GPUs, how many links reach them says all (one field, no question a link). Otherwise
// every link that is up says where it leads. Only where some of those ends stay unknown is each pair asked whether peer access
// goes over NVLink. On 8 GPUs with 18 links each that is the difference between 8 calls and 440.
#include "host/gpu/nvidia/links.hpp"

#include <algorithm>

#include "host/gpu/nvidia/calls.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {
namespace {

RawLink read_link(const Functions& call, abi::Device device, std::uint32_t link) {
  RawLink found{link, "", -1};
  auto remote = ask<abi::PciInfo>(call.link_remote_pci, device, link);
  remote.value.bus_id[sizeof remote.value.bus_id - 1] = '\0';
  if (remote) found.remote = remote.value.bus_id;
  if (auto type = ask<int>(call.link_remote_type, device, link)) found.remote_type = type.value;
  return found;
}

bool leads_to_a_gpu(const RawLink& link) {
  return link.remote_type == abi::remote_gpu && model::PciAddress::parse(link.remote).has_value();
}

}  // namespace

void read_links(RawIdentity& raw, const Functions& call, abi::Device device,
                const std::map<std::uint32_t, abi::Device>& others) {
  if (raw.nvswitch_links && raw.nvswitch_links.value > 0) return;
  std::vector<RawLink> links;
  abi::Return rc = abi::absent;
  for (std::uint32_t link = 0; link < abi::max_links; ++link) {
    auto active = ask<std::uint32_t>(call.link_state, device, link);
    rc = active.rc;
    if (!active) break;                                    // past the last link of this GPU, or none at all
    if (active.value != 0) links.push_back(read_link(call, device, link));
  }
  const bool told = !links.empty() || rc == abi::ok || rc == abi::invalid_argument;
  raw.links = told ? Answer<std::vector<RawLink>>(links) : Answer<std::vector<RawLink>>::refused(rc);
  const bool no_such_function = rc == abi::absent;
  if (!no_such_function && std::all_of(links.begin(), links.end(), leads_to_a_gpu)) return;
  for (auto [index, other] : others) {
    if (index == raw.index) continue;
    auto status = ask<std::uint32_t>(call.p2p_status, device, other, abi::p2p_caps_nvlink);
    raw.peers.push_back({index, status.rc, status.value});
  }
}

}  // namespace thole::host::nvidia
