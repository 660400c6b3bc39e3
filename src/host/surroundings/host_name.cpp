#include "host/surroundings/host_name.hpp"

#include <unistd.h>

namespace thole::host {

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace thole::host
