#include "wire/survey.hpp"

#include "host/surroundings/surroundings.hpp"
#include "wire/wire.hpp"

namespace thole::wire {

model::Surroundings survey(const Settings& settings, const std::string& state_dir) {
  return host::read_surroundings(settings.sysroot, state_dir, user_name(settings.uid));
}

}  // namespace thole::wire
