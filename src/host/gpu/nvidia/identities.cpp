#include "host/gpu/nvidia/identities.hpp"

#include <sys/stat.h>

#include <cstdlib>

#include "base/text.hpp"
#include "base/version.hpp"

namespace thole::host::nvidia {
namespace {

constexpr double links_are_up_after_s = 300;

// The number of the module's directory is given anew whenever it is loaded, also in the same boot.
std::string module_number(const Tree& tree) {
  struct stat s {};
  return ::stat(tree.at("/sys/module/nvidia").c_str(), &s) == 0 ? std::to_string(s.st_ino) : "?";
}

// "" where there is nothing to tell one life of the driver from the next: a captured tree, WSL.
std::string key_of(const Tree& tree, const DriverFiles& files, const std::string& library) {
  const auto boot = tree.text("/proc/sys/kernel/random/boot_id");
  if (!boot || boot->empty() || files.version.empty() || files.gpus.empty()) return "";
  std::string key = fmt::format("{} {} {} driver {} {} library {} GPUs", version, tree.at(""), *boot, files.version,
                                module_number(tree), library);
  for (const FileGpu& gpu : files.gpus) key += fmt::format(" {} {}", gpu.pci.to_string(), gpu.information.uuid);
  return key;
}

template <class T>
bool told(const Answer<T>& answer) {
  return answer || answer.rc == abi::not_asked || means_unsupported(answer.rc);
}

bool is_whole(const RawIdentity& raw, const RawUse* use) {
  const bool links = told(raw.links) || raw.links.rc == abi::invalid_argument;
  if (raw.handle != abi::ok || !use || !told(raw.uuid) || !told(raw.name) || !told(raw.serial) || !told(raw.minor) || !links)
    return false;
  // An NVSwitch board whose manager is still at work may have more links soon, and has to be asked again.
  if (!use->fabric) return told(use->fabric);
  return use->fabric.value.state == abi::fabric_not_supported ||
         (use->fabric.value.state == abi::fabric_completed && use->fabric.value.status == abi::ok);
}

void add_from_files(RawIdentity& raw, const Information& file) {
  if (raw.uuid.rc == abi::not_asked && !file.uuid.empty()) raw.uuid = file.uuid;
  if (raw.name.rc == abi::not_asked && !file.model.empty()) raw.name = file.model;
  if (raw.minor.rc == abi::not_asked && file.minor) raw.minor = static_cast<std::uint32_t>(*file.minor);
}

}  // namespace

void Identities::recall(const Tree& tree, const DriverFiles& files, const std::string& library) {
  const auto up = tree.text("/proc/uptime");
  settled_ = !up || std::strtod(up->c_str(), nullptr) > links_are_up_after_s;
  std::string key = key_of(tree, files, library);
  if (key == key_ && !key.empty()) return;
  key_ = std::move(key);
  known_.clear();
  const auto text = text_.find(key_);
  if (!text) return;
  RawReading kept;
  for (std::string_view line : split_lines(*text)) kept.add(line);
  for (auto& [index, identity] : kept.identities)
    if (const auto pci = model::PciAddress::parse(identity.pci.value)) known_[*pci] = std::move(identity);
}

void Identities::complete(RawReading& answer, const DriverFiles& files) {
  bool learned = false;
  for (auto& [index, identity] : answer.identities) {
    const auto pci = model::PciAddress::parse(identity.pci.value);
    if (!pci) continue;
    if (const auto known = known_.find(*pci); identity.known && known != known_.end()) {
      const Answer<std::string> address = identity.pci;
      const abi::Return handle = identity.handle;
      identity = known->second;
      identity.index = index;
      identity.pci = address;
      identity.handle = handle;
      continue;
    }
    for (const FileGpu& file : files.gpus)
      if (file.pci == *pci) add_from_files(identity, file.information);
    const auto use = answer.uses.find(index);
    if (!settled_ || identity.known || key_.empty() || !is_whole(identity, use == answer.uses.end() ? nullptr : &use->second))
      continue;
    learned = known_.insert_or_assign(*pci, identity).second || learned;
  }
  if (!learned) return;
  std::string text;
  for (const auto& [pci, identity] : known_) text += to_line(identity) + "\n";
  text_.keep(key_, text);
}

}  // namespace thole::host::nvidia
