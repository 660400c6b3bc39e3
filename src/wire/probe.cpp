#include "wire/probe.hpp"

#include "base/error.hpp"
#include "host/probe/channel.hpp"

namespace thole::wire {

int run_probe(const std::vector<std::string>& words) {
  if (words.size() != 1) throw Error(ErrorCode::usage, "__probe: machinery of thole, called with the name of a backend");
  return host::probe_main(words.front());
}

}  // namespace thole::wire
