// THOLE_GPUS: what a claim has told whoever runs inside it of its GPUs, and by which words its lists show them.
//
// A number in a list means another GPU once one has left the driver's list, or come back. So a list of no other words than
// those that THOLE_GPUS pairs with its GPUs is read by these pairs: it is the claim's own, or what somebody took from that.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/vendors.hpp"
#include "plan/place/select.hpp"

namespace thole::plan {

class ToldGpus {
 public:
  // Nothing where there is no THOLE_GPUS, or it cannot be read.
  static std::optional<ToldGpus> read(const Environment& environment);

  const std::vector<std::string>& keys() const { return keys_; }

  // The keys of the GPUs that this list (the vendor's lowest) shows, in its order; nothing where a word is none of theirs.
  std::optional<std::vector<std::string>> shown_by(const model::VendorRow& row, std::string_view list) const;

  // What the vendors' lists of this environment show.
  struct Shown {
    std::vector<std::string> keys;
    Environment by_names;                      // the same by names that are never another's; empty where one has none
  };
  // Nothing where a word is none of theirs, or no list shows any.
  std::optional<Shown> shown_in(const Environment& environment) const;

  // Whether every vendor's list in this environment shows all that it was told of.
  bool all_shown_by(const Environment& environment) const;

 private:
  struct Gpu {
    std::string key, vendor, listed_as, uuid;
  };
  std::vector<Gpu> gpus_;
  std::vector<std::string> keys_;
};

}  // namespace thole::plan
