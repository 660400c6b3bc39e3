// Jobs whose GPUs could not be had at all: their runner asks again later, and says when in its log, where whoever looks at the
// queue finds it; so it does with what keeps itself from beginning any, and its lanes with what keeps them from storing an end.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "model/job.hpp"
#include "port/queue_door.hpp"

namespace thole::app {

struct PutOff {
  model::JobId job = 0;                          // and those of its request class
  WallTime until{};
  std::string why;                               // "": that was not said
};

// What the runner says, and its lane before it.
std::string put_off_text(model::JobId job, WallTime until);
std::string lane_ended_text(model::JobId job, std::string_view why);

// What keeps the runner itself from beginning anything, and that it does no more.
std::string runner_kept_text(std::string_view why);
inline constexpr std::string_view runner_goes_on = "jobs begin again";
std::string runner_kept_in(std::string_view log);   // the reason; "" where nothing does

// What keeps a lane from storing what becomes of its tasks, as it says after each try.
std::string unstored_text(model::JobId job, std::string_view why);
std::string unstored_in(std::string_view log, WallTime now);   // what one has said last; "" where no try is as late as that

// Says that whatever is put off by now is asked for at once: the runner that has said so has gone.
void ask_anew(const port::QueueFolder& folder, WallTime now, const std::function<void(const std::string&)>& say);

// By the lines of a log, each with its time before it; only what is still put off, the last of each job.
std::vector<PutOff> put_off_in(std::string_view log, WallTime now);

}  // namespace thole::app
