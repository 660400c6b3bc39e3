#include "model/vendors.hpp"

#include <algorithm>
#include <string>

namespace thole::model {

const char* to_string(Vendor vendor) { return row_of(vendor).name; }

std::optional<Vendor> parse_vendor(std::string_view text) {
  const auto row = std::ranges::find(vendors, text, &VendorRow::name);
  return row == std::end(vendors) ? std::nullopt : std::optional(row->vendor);
}

const char* vendor_names() {
  static const std::string names = [] {
    std::string text;
    for (const VendorRow& row : vendors) text += (text.empty() ? "" : ", ") + std::string(row.name);
    return text;
  }();
  return names.c_str();
}

bool is_mask(std::string_view variable) {
  return std::ranges::any_of(vendors, [&](const VendorRow& row) {
    const auto lists = filled(row.lists);
    return std::ranges::find(lists, variable) != lists.end();
  });
}

}  // namespace thole::model
