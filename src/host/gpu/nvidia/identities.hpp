// What does not change while NVIDIA's driver stays loaded: who its GPUs are and how NVLinks join them. Asked once, kept between
// runs in the user's own runtime directory.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "host/gpu/nvidia/files.hpp"
#include "host/gpu/nvidia/translate.hpp"
#include "host/kept_text.hpp"

namespace thole::host::nvidia {

class Identities {
 public:
  explicit Identities(std::string directory) : text_(std::move(directory), "nvidia") {}

  // Reads what is kept for this life of the driver; called before each question. GPUs that came or went, another driver or
  // another boot begin a new one.
  void recall(const Tree& tree, const DriverFiles& files, const std::string& library);
  bool knows(const model::PciAddress& gpu) const { return known_.contains(gpu); }

  // Completes the identities of an answer by what is kept and by the kernel's files; learns those that were told whole.
  void complete(RawReading& answer, const DriverFiles& files);

 private:
  KeptText text_;
  std::string key_;
  bool settled_ = false;                                   // links come up in the first minutes after a boot: not kept before
  std::map<model::PciAddress, RawIdentity> known_;
};

}  // namespace thole::host::nvidia
