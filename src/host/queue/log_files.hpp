// What tasks write, in files under logs/ of the queue's directory.
//
// How this works. The log of a job with one task is `17.log`; each run is appended to it. A job with many tasks has a directory
// `17/`: every bay of every lane packs the logs of its tasks one after the other into a file of its own (`3-0.log`), and the
// store says of each task where its text lies. So a task costs no file. The descriptor is the task's own stdout: nothing is
// copied, and a dead lane breaks no pipe.
//
// The size cap punches a hole into the middle of a task's text (the first quarter and the last part stay). The kernel tells by
// inotify that a file grows, at most once a second: nothing looks while nothing is written.
#pragma once

#include <map>
#include <string>

#include "base/fd.hpp"
#include "port/task_logs.hpp"

namespace thole::host {

void remove_logs(const std::string& directory, model::JobId job);

// Where the hole of a text of `length` bytes from `start` goes so that about `limit` bytes stay;
// nothing when it need not have one.
struct Hole { std::uint64_t start = 0, length = 0; };
std::optional<Hole> hole_for(std::uint64_t start, std::uint64_t length, std::uint64_t limit);

class LogFiles : public port::TaskLogs {
 public:
  explicit LogFiles(std::string directory) : directory_(std::move(directory)) {}

  Spot next(const port::LogUse& use) override;
  int begin(const port::LogUse& use, std::string_view header) override;
  std::optional<std::uint64_t> end(const port::LogUse& use, std::string_view footer) override;
  void let_go(unsigned bay) override { packs_.erase(bay); }       // the next task opens it again
  std::string tail(const port::LogUse& use, std::size_t bytes) override;
  int growth() const override { return growth_.get(); }
  std::optional<SteadyTime> trim(SteadyTime now) override;

 private:
  // The file of one bay, and the task that writes to it.
  struct Pack {
    model::JobId job = 0;
    Fd file;
    std::string name, path;
    std::uint64_t start = 0, limit = 0;          // 0: no limit
    int watch = -1;
    std::optional<SteadyTime> look_again;        // not watched before that
  };

  bool open(Pack& pack, const port::LogUse& use, std::string& problem) const;
  void watch(Pack& pack);
  void cut(Pack& pack) const;

  std::string directory_;
  std::map<unsigned, Pack> packs_;               // by bay
  Fd growth_;
};

}  // namespace thole::host
