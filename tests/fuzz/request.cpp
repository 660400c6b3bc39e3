// What people type: durations, sizes, shares, CPU lists, PCI addresses, times, machine names, requests in JSON. The whole input
// is tried as each of them.
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "fuzz.hpp"
#include "host/gpu/file/shorthand.hpp"
#include "model/json.hpp"

using namespace thole;
using fuzz::check;

namespace {

bool safe_for_a_terminal(const std::string& text) {
  for (unsigned char c : text)
    if (c < 0x20 || c == 0x7f) return false;
  return true;
}

void try_json(const std::string& text) {
  try {
    model::request_from_json(model::parse_json(text, "request")).describe();
  } catch (const Error& error) {
    check(error.code() == ErrorCode::usage, "what is no request is a usage error");
  }
}

void try_shorthand(const std::string& text) {
  try {
    auto machine = host::shorthand_machine(text);
    check(!machine || (!machine->gpus.empty() && machine->gpus.size() <= 64), "a shorthand makes 1 to 64 GPUs");
  } catch (const Error& error) {
    check(error.code() == ErrorCode::usage && safe_for_a_terminal(error.what()), "an unknown one is a usage error");
  }
}

}  // namespace

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (auto duration = parse_duration(text)) {
    check(duration->count() >= 0, "a duration is not negative");
    auto again = parse_duration(format_duration(*duration));
    check(again && *again <= *duration, "what is printed of it can be typed, and is not longer");
  }
  if (auto mib = parse_size_mib(text)) check(parse_size_mib(format_mib(*mib)).has_value(), "a printed size can be typed");
  if (auto percent = parse_percent(text)) check(*percent >= 0 && *percent <= 100, "a share is 0 to 100 percent");
  if (auto cpus = model::CpuSet::parse(text)) {
    check(model::CpuSet::parse(cpus->to_string()) == *cpus, "a CPU list survives being printed");
    check(cpus->to_vector().size() == cpus->size(), "as many as it says");
  }
  if (auto pci = model::PciAddress::parse(text))
    check(model::PciAddress::parse(pci->to_string()) == *pci, "an address survives being printed");
  if (auto when = parse_iso(text)) check(parse_iso(format_iso(*when)).has_value(), "a time survives being printed");
  for (std::size_t columns : {0u, 1u, 20u, 512u}) {
    std::string shown = printable(text, columns);
    check(safe_for_a_terminal(shown), "printable text steers no terminal");
    check(shown.size() <= columns * 4 + 3, "and keeps to its columns");
  }
  check(printable(printable(text, 100000), 100000) == printable(text, 100000), "printable text is printable");
  check(!shell_quote(text).empty(), "even nothing is a word for sh");
  nearest(text, host::shorthand_models());
  try_shorthand(text);
  try_json(text);
  return 0;
}
