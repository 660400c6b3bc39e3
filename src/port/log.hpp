// Port: where progress and warnings for a person go (stderr in the CLI, nowhere in the library unless asked).
#pragma once

#include <string_view>

namespace thole::port {

enum class Level { detail, note, warning };   // -v, normal, always (not under -q)

class Log {
 public:
  virtual ~Log() = default;
  virtual void say(Level level, std::string_view text) = 0;
};

}  // namespace thole::port
