#include "wire/probe.hpp"

#include "base/error.hpp"
#include "host/gpu/nvidia/placeholder.hpp"
#include "host/probe/channel.hpp"

namespace thole::wire {

int run_probe(const std::vector<std::string>& words) {
  if (words.size() != 1) throw Error(ErrorCode::usage, "__probe: machinery of thole, called with the name of a backend");
  return host::probe_main(words.front());
}

int run_placeholder(const std::vector<std::string>& words) {
  if (words.size() < 2) throw Error(ErrorCode::usage, "__placeholder: machinery of thole, called with a library and UUIDs");
  return host::be_placeholder(words.front(), {words.begin() + 1, words.end()});
}

}  // namespace thole::wire
