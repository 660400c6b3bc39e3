#include "app/claim/taken_back.hpp"

#include <algorithm>
#include <string_view>

#include "base/refusal.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::app {

std::string taken_back_text(const std::string& gpus) {
  return gpus + " was taken back by root: others may have claimed it since";
}

namespace {

// The unit whose file that is; "" of any other, a sharer's place among them.
std::string key_of_node(const std::string& path) {
  constexpr std::string_view node_of_gpu = "/gpu.";
  const std::size_t at = path.rfind(node_of_gpu);
  return at == std::string::npos ? "" : path.substr(at + node_of_gpu.size());
}

bool is_among(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

std::vector<std::string> taken_back(const port::Claim& claim, const std::vector<model::Unit>& units,
                                    const std::vector<std::size_t>& chosen) {
  std::vector<std::string> taken = claim.exchanged();
  for (const int file : claim.telling_descriptors()) taken.push_back(key_of_node(given_up_fifo_of_root(file)));
  std::vector<std::string> told;
  for (const std::size_t index : chosen)
    if (is_among(taken, units[index].key)) told.push_back(taken_back_text("GPU " + units[index].label));
  return told;
}

std::vector<std::string> taken_back(const Acquired& acquired) {
  return taken_back(acquired.claim, acquired.units, acquired.chosen);
}

std::string taken_back_around(const std::vector<std::string>& keys) {
  for (const std::string& path : given_up_fifos_of_root()) {
    const std::string key = key_of_node(path);
    if (!key.empty() && (keys.empty() || is_among(keys, key))) return taken_back_text("GPU " + printable(key, 60));
  }
  return "";
}

namespace {

[[noreturn]] void refuse(const std::string& told) {
  throw DriverTrouble(Error(ErrorCode::unavailable, told).hint("leave that claim, and claim another GPU"));
}

}  // namespace

void refuse_taken_back(const std::string& gpus) { refuse(taken_back_text(gpus)); }

void refuse_taken_back(const Acquired& acquired) {
  if (const std::vector<std::string> told = taken_back(acquired); !told.empty()) refuse(told.front());
}

std::vector<std::string> taken_from(port::ClaimStore& machine, const KeptClaim& claim) {
  const std::vector<OuterClaim> all = claims_around(machine, {{"THOLE_CLAIM", claim.id}});
  if (all.empty() || all.front().id != claim.id) return {};
  std::vector<std::string> taken = all.front().taken;
  const std::vector<std::string>& keys = all.front().keys;
  std::erase_if(taken, [&](const std::string& key) { return !is_among(keys, key); });
  std::ranges::sort(taken);
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  return taken;
}

}  // namespace thole::app
