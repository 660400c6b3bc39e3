// A text kept between runs in the user's own runtime directory, under a key of all that can change it while the machine runs.
//
// What lies there in another's name, can be written by others, is damaged or has another key is not believed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace thole::host {

class KeptText {
 public:
  // `directory`: of this user alone; made when first needed. "" keeps nothing.
  KeptText(std::string directory, std::string name) : directory_(std::move(directory)), name_(std::move(name)) {}

  // An empty key finds nothing and keeps nothing.
  std::optional<std::string> find(std::string_view key) const;
  void keep(std::string_view key, std::string_view text) const;  // silently not, where it cannot be written

 private:
  std::string head(std::string_view key, std::string_view text) const;

  std::string directory_, name_;
};

}  // namespace thole::host
