// The machines of machines/*.json, by name.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "model/json.hpp"
#include "test_folders.hpp"

namespace thole::test {

inline const std::map<std::string, model::Machine>& shipped_machines() {
  static const std::map<std::string, model::Machine> machines = [] {
    std::map<std::string, model::Machine> all;
    for (const auto& file : std::filesystem::directory_iterator(THOLE_SOURCE_DIR "/machines")) {
      if (file.path().extension() != ".json") continue;
      std::stringstream text;
      text << std::ifstream(file.path()).rdbuf();
      all.emplace(file.path().stem(), model::machine_from_json(model::parse_json(text.str(), file.path()), file.path()));
    }
    return all;
  }();
  return machines;
}

}  // namespace thole::test
