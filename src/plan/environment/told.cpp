#include "plan/environment/told.hpp"

#include <algorithm>
#include <exception>

#include "base/text.hpp"
#include "model/json.hpp"

namespace thole::plan {

std::optional<ToldGpus> ToldGpus::read(const Environment& environment) {
  const auto list = environment.find("THOLE_GPUS");
  if (list == environment.end()) return std::nullopt;
  ToldGpus told;
  const auto text_of = [](const model::Json& gpu, const char* name) {
    return gpu.contains(name) && gpu.at(name).is_string() ? gpu.at(name).get<std::string>() : std::string();
  };
  try {
    for (const model::Json& gpu : model::parse_json(list->second, "THOLE_GPUS")) {
      told.gpus_.push_back({gpu.at("key").get<std::string>(), text_of(gpu, "vendor"), text_of(gpu, "listed_as"),
                            text_of(gpu, "uuid")});
      told.keys_.push_back(told.gpus_.back().key);
    }
  } catch (const std::exception&) {  // of the JSON library, or of ours
    return std::nullopt;
  }
  return told;
}

std::optional<std::vector<std::string>> ToldGpus::shown_by(const model::VendorRow& row, std::string_view list) const {
  std::vector<std::string> keys;
  if (list.empty()) return keys;
  for (const std::string_view word : split(list, ',')) {
    const auto its = std::ranges::find_if(gpus_, [&](const Gpu& gpu) {
      return gpu.vendor == to_string(row.vendor) && gpu.listed_as == word;
    });
    if (its == gpus_.end() || std::ranges::find(keys, its->key) != keys.end()) return std::nullopt;   // given twice: none
    keys.push_back(its->key);
  }
  return keys;
}

std::optional<ToldGpus::Shown> ToldGpus::shown_in(const Environment& environment) const {
  Shown shown;
  bool have_names = true;
  for (const model::VendorRow& row : model::vendors) {
    const std::string name(row.lists.front());
    const auto list = environment.find(name);
    if (list == environment.end() || std::ranges::find(gpus_, to_string(row.vendor), &Gpu::vendor) == gpus_.end()) continue;
    const auto keys = shown_by(row, list->second);
    if (!keys) return std::nullopt;
    std::vector<std::string> names;
    for (const std::string& key : *keys) names.push_back(std::ranges::find(gpus_, key, &Gpu::key)->uuid);
    have_names = have_names && (names.empty() || row.rules == model::ListRules::cuda) &&
                 std::ranges::find(names, "") == names.end();
    if (!names.empty()) shown.by_names[name] = join(names, ",");
    shown.keys.insert(shown.keys.end(), keys->begin(), keys->end());
  }
  if (shown.keys.empty()) return std::nullopt;
  if (!have_names) shown.by_names.clear();
  return shown;
}

bool ToldGpus::all_shown_by(const Environment& environment) const {
  return std::ranges::all_of(model::vendors, [&](const model::VendorRow& row) {
    const auto all = std::ranges::count(gpus_, to_string(row.vendor), &Gpu::vendor);
    const auto list = environment.find(std::string(row.lists.front()));
    if (list == environment.end()) return all == 0;
    const auto shown = shown_by(row, list->second);
    return shown && static_cast<std::ptrdiff_t>(shown->size()) == all;
  });
}

}  // namespace thole::plan
