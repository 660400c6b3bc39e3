// Machine files: any text is a machine or an Error; a machine survives the way through JSON and lists its units.
#include "base/error.hpp"
#include "fuzz.hpp"
#include "model/json.hpp"
#include "model/unit.hpp"

using namespace thole;

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  model::Machine machine;
  try {
    machine = model::machine_from_json(model::parse_json(text, "input"), "input");
  } catch (const Error& error) {
    fuzz::check(error.code() == ErrorCode::usage, "what is no machine is a usage error");
    return 0;
  }
  std::string written = model::dump(model::to_json(machine));
  fuzz::check(model::machine_from_json(model::parse_json(written, "again")) == machine, "from(to(x)) == x");
  for (const model::Unit& unit : model::units(machine)) {
    fuzz::check(!unit.key.empty() && unit.key[0] != '.' && unit.key.find('/') == std::string::npos, "a key can name a file");
    unit.use_of(machine);
    unit.model_of(machine);
  }
  return 0;
}
