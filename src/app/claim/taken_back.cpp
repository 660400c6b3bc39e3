#include "app/claim/taken_back.hpp"

#include <algorithm>

#include "base/refusal.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::app {

std::vector<std::string> taken_back(const Acquired& acquired) {
  std::vector<std::string> told;
  for (const int lock : acquired.claim.all_descriptors()) {
    const std::string path = replaced_fifo_of_root(lock);
    if (path.empty()) continue;
    for (std::size_t index : acquired.chosen) {
      const model::Unit& unit = acquired.units[index];
      const bool is_its = path.ends_with("/gpu." + unit.key);   // of a sharer's place alone it says nothing
      const std::string text = fmt::format("GPU {} was taken back by root: others may have claimed it since", unit.label);
      if (is_its && std::ranges::find(told, text) == told.end()) told.push_back(text);
    }
  }
  return told;
}

void refuse_taken_back(const Acquired& acquired) {
  if (const std::vector<std::string> told = taken_back(acquired); !told.empty())
    throw DriverTrouble(Error(ErrorCode::unavailable, told.front()).hint("leave that claim, and claim another GPU"));
}

}  // namespace thole::app
