#include "model/machine.hpp"

#include <utility>

#include "base/text.hpp"

namespace thole::model {

namespace {

// The names of an enumeration's values, in both directions.
template <class T>
using Named = std::pair<T, const char*>;

constexpr Named<Health> healths[] = {{Health::ok, "ok"},
                                     {Health::lost, "lost"},
                                     {Health::reset_required, "reset-required"},
                                     {Health::driver_mismatch, "driver-mismatch"},
                                     {Health::unreadable, "unreadable"},
                                     {Health::hung, "hung"}};
constexpr Named<LinkKind> link_kinds[] = {
    {LinkKind::nvlink, "nvlink"}, {LinkKind::nvswitch, "nvswitch"}, {LinkKind::xgmi, "xgmi"},
    {LinkKind::c2c, "c2c"},       {LinkKind::pix, "pix"},           {LinkKind::pxb, "pxb"},
    {LinkKind::phb, "phb"},       {LinkKind::node, "node"},         {LinkKind::sys, "sys"}};
constexpr Named<GpuProcess::Kind> process_kinds[] = {{GpuProcess::Kind::compute, "compute"},
                                                     {GpuProcess::Kind::graphics, "graphics"},
                                                     {GpuProcess::Kind::both, "both"},
                                                     {GpuProcess::Kind::mps, "mps"}};

template <class T, std::size_t n>
const char* name_of(T value, const Named<T> (&names)[n]) {
  for (const auto& [known, text] : names)
    if (known == value) return text;
  return "unknown";
}

template <class T, std::size_t n>
std::optional<T> value_of(std::string_view name, const Named<T> (&names)[n]) {
  for (const auto& [known, text] : names)
    if (name == text) return known;
  return std::nullopt;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

const char* to_string(Health health) { return name_of(health, healths); }
const char* to_string(LinkKind kind) { return name_of(kind, link_kinds); }
const char* to_string(GpuProcess::Kind kind) { return name_of(kind, process_kinds); }
std::optional<Health> parse_health(std::string_view text) { return value_of(text, healths); }
std::optional<LinkKind> parse_link_kind(std::string_view text) { return value_of(text, link_kinds); }
std::optional<GpuProcess::Kind> parse_process_kind(std::string_view text) { return value_of(text, process_kinds); }

std::optional<PciAddress> PciAddress::parse(std::string_view text) {
  // [domain:]bus:device[.function], hexadecimal; the domain has up to eight digits (NVML writes them all). By hand and in one
  // pass: a machine file has hundreds of them, and is read at every start.
  struct Number {
    std::uint64_t value = 0;
    int digits = 0;
    bool fits(int most_digits, std::uint64_t most) const { return digits > 0 && digits <= most_digits && value <= most; }
  };
  Number numbers[3], function{0, 1};
  std::size_t colons = 0;
  bool dot = false;
  for (const char c : text) {
    if (c == ':' && !dot && colons < 2) {
      ++colons;
    } else if (c == '.' && !dot) {
      dot = true;
      function = {};
    } else {
      Number& number = dot ? function : numbers[colons];
      const int digit = hex_digit(c);
      if (digit < 0 || ++number.digits > 8) return std::nullopt;
      number.value = number.value << 4 | static_cast<unsigned>(digit);
    }
  }
  if (colons == 0) return std::nullopt;
  const Number domain = colons == 2 ? numbers[0] : Number{0, 1}, bus = numbers[colons - 1], device = numbers[colons];
  if (!domain.fits(8, 0xffffffff) || !bus.fits(2, 0xff) || !device.fits(2, 0x1f) || !function.fits(1, 7)) return std::nullopt;
  return PciAddress{static_cast<std::uint32_t>(domain.value), static_cast<std::uint8_t>(bus.value),
                    static_cast<std::uint8_t>(device.value), static_cast<std::uint8_t>(function.value)};
}

std::string PciAddress::to_string() const {
  // By hand: a machine file names hundreds of them, and a formatter took a tenth of the start of every command.
  const std::uint64_t digits = ((std::uint64_t{domain} << 8 | bus) << 8 | device) << 4 | (function & 0xf);
  int count = 9;
  while (digits >> (4 * count) != 0) ++count;
  std::string text;
  text.reserve(16);
  for (int digit = count - 1; digit >= 0; --digit) {
    text += "0123456789abcdef"[digits >> (4 * digit) & 0xf];
    if (digit == 5 || digit == 3) text += ':';
    else if (digit == 1) text += '.';
  }
  return text;
}

std::string Gpu::key() const {
  // The key becomes a file's name in the state directory: nothing but [A-Za-z0-9.:-], so that no identity can lead out of it.
  std::string text = uuid;
  if (text.empty()) text = fmt::format("pci-{}.{}", pci ? pci->to_string() : "unknown", part.value_or(0));
  return lock_name(text);
}

std::string lock_name(std::string_view identity) {
  std::string name(identity.substr(0, 96));
  for (char& c : name) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == ':' || c == '-';
    if (!plain) c = c == '/' ? ':' : '-';  // the old form MIG-GPU-…/1/0 stays readable
  }
  if (name.starts_with('.')) name[0] = '-';  // no hidden file, and never "."
  return name;
}

}  // namespace thole::model
