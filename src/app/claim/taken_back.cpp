#include "app/claim/taken_back.hpp"

#include <algorithm>

#include "base/refusal.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::app {

std::string taken_back_text(const std::string& gpus) {
  return gpus + " was taken back by root: others may have claimed it since";
}

std::vector<std::string> taken_back(const port::Claim& claim, const std::vector<model::Unit>& units,
                                    const std::vector<std::size_t>& chosen) {
  std::vector<std::string> told;
  for (const int lock : claim.all_descriptors()) {
    const std::string path = given_up_fifo_of_root(lock);
    if (path.empty()) continue;
    for (const std::size_t index : chosen) {
      const model::Unit& unit = units[index];
      const bool is_its = path.ends_with("/gpu." + unit.key);   // of a sharer's place alone it says nothing
      const std::string text = taken_back_text("GPU " + unit.label);
      if (is_its && std::ranges::find(told, text) == told.end()) told.push_back(text);
    }
  }
  return told;
}

std::vector<std::string> taken_back(const Acquired& acquired) {
  return taken_back(acquired.claim, acquired.units, acquired.chosen);
}

void refuse_taken_back(const Acquired& acquired) {
  if (const std::vector<std::string> told = taken_back(acquired); !told.empty())
    throw DriverTrouble(Error(ErrorCode::unavailable, told.front()).hint("leave that claim, and claim another GPU"));
}

std::vector<std::string> taken_from(port::ClaimStore& store, const std::vector<model::Holding>& holdings,
                                    const KeptClaim& claim) {
  std::vector<std::string> taken = store.own_claim(last_part(claim.id));
  std::erase_if(taken, [&](const std::string& key) {
    const auto may_be_its = [&](const model::Holding& one) {
      return one.key == key && (!one.verified || one.id.empty() || one.id == last_part(claim.id));
    };
    return std::ranges::any_of(holdings, may_be_its) || !store.knows_any({key});
  });
  if (!taken.empty() && store.own_claim(last_part(claim.id)).empty()) taken.clear();   // it has ended meanwhile
  return taken;
}

}  // namespace thole::app
