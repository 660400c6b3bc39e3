// A runner that sits down and does nothing:   fake_runner DIRECTORY
#include <unistd.h>

#include "host/queue/local_door.hpp"
#include "host/queue/local_lanes.hpp"

int main(int, char** argv) {
  thole::host::become_runner_process();
  const auto seat = thole::host::LocalLanes(argv[1]).sit();
  if (seat) ::pause();
}
