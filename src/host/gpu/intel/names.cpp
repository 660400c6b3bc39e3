// Product names by PCI device id. Intel's kernel drivers give none; the names are those of Intel's own compute runtime
// (github.com/intel/compute-runtime, shared/source/dll/devices), without the trademark signs.
#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "host/gpu/intel/identity.hpp"

namespace thole::host::intel {

namespace {

struct Product {
  std::uint16_t device;
  const char* name;
};

constexpr Product products[] = {
    {0x0b69, "Intel Data Center GPU Max 1450"},    {0x0bd5, "Intel Data Center GPU Max 1550"},
    {0x0bd6, "Intel Data Center GPU Max 1550"},    {0x0bd7, "Intel Data Center GPU Max 1350"},
    {0x0bd8, "Intel Data Center GPU Max 1350"},    {0x0bd9, "Intel Data Center GPU Max 1100"},
    {0x0bda, "Intel Data Center GPU Max 1100"},    {0x0bdb, "Intel Data Center GPU Max 1100"},
    {0x56c0, "Intel Data Center GPU Flex 170"},    {0x56c1, "Intel Data Center GPU Flex 140"},
    {0x56a0, "Intel Arc A770"},                    {0x56a1, "Intel Arc A750"},
    {0x56a2, "Intel Arc A580"},                    {0x56a5, "Intel Arc A380"},
    {0x56a6, "Intel Arc A310"},                    {0x56b0, "Intel Arc Pro A30M"},
    {0x56b1, "Intel Arc Pro A40/A50"},             {0x5690, "Intel Arc A770M"},
    {0x5691, "Intel Arc A730M"},                   {0x5692, "Intel Arc A550M"},
    {0x5693, "Intel Arc A370M"},                   {0x5694, "Intel Arc A350M"},
    {0xe20b, "Intel Arc B580"},                    {0xe20c, "Intel Arc B570"},
    {0x4905, "Intel Iris Xe MAX"},
};

const Product* find(std::uint16_t device) {
  auto is_it = [device](const Product& product) { return product.device == device; };
  auto known = std::find_if(std::begin(products), std::end(products), is_it);
  return known == std::end(products) ? nullptr : known;
}

}  // namespace

std::string product_name(std::uint16_t device) {
  const Product* known = find(device);
  return known ? known->name : fmt::format("Intel GPU [8086:{:04x}]", device);
}

bool is_discrete(std::uint16_t device) { return find(device) != nullptr; }

}  // namespace thole::host::intel
