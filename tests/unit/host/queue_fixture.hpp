// Files of a queue in a folder of a test's own, and children that have something of them.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "base/fd.hpp"
#include "base/stream.hpp"
#include "host/queue/local_door.hpp"
#include "host/queue/local_lanes.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/tree.hpp"
#include "host/queue/log_files.hpp"
#include "host/queue/runner_seat.hpp"
#include "host/surroundings/logout.hpp"
#include "support/failing_calls.hpp"
#include "support/said.hpp"
#include "test_folders.hpp"

namespace thole::host::queue_tests {

class QueueFileTest : public testing::Test {
 protected:
  QueueFileTest() {
    char name[] = "/tmp/thole-queue-XXXXXX";
    directory_ = ::mkdtemp(name);
    QueueFiles(directory_).make();
  }
  ~QueueFileTest() override {
    while (const auto runner = LocalDoor(directory_, {}).runner()) {
      const Fd end = open_pidfd(*runner);
      ::kill(*runner, SIGKILL);
      if (end) is_readable_by(end.get(), std::nullopt);
    }
    std::filesystem::remove_all(directory_);
  }

  // A runner that notes each start, and then does what the script says; by itself it sits down and does nothing.
  BareCommand runner(const std::string& before = "") const {
    const std::string script =
        "echo x >> " + directory_ + "/starts; " + before + " exec " THOLE_BINARY_DIR "/fake/fake_runner " + directory_;
    return {{"/bin/sh", "-c", script}, {"PATH=" + std::string(::getenv("PATH"))}};
  }
  std::string starts() const { return read_file(directory_ + "/starts", 1000).value_or(""); }

  std::string directory_;
};

// A child that does `work`, with the writing end of a pipe to say that it is at it, and then sleeps until it is killed.
inline pid_t child_that(const std::function<void()>& work) {
  Pipe up = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    up.read.reset();
    work();
    static_cast<void>(write_all(up.write.get(), "x"));
    for (;;) ::pause();
  }
  up.write.reset();
  char byte;
  EXPECT_EQ(::read(up.read.get(), &byte, 1), 1);
  return child;
}

inline void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// The names of what a process has open.
inline std::vector<std::string> open_files_of(pid_t pid) {
  std::vector<std::string> names;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone))
    names.push_back(std::filesystem::read_symlink(entry.path(), gone).string());
  return names;
}

using QueueSeats = QueueFileTest;
using QueueLogs = QueueFileTest;

}  // namespace thole::host::queue_tests
