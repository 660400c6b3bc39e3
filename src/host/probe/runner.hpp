// The parent side of a probe: starts it, asks it, gives up on it in time, and never leaves two hung ones behind.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"
#include "host/probe/asking.hpp"

namespace thole::host {

struct ProbeOptions {
  std::string program;                                     // this very program; "" = none, so every answer is `not_started`
  std::vector<std::string> arguments;                      // {"__probe", "nvidia"}
  std::string runtime_dir;                                 // made if missing, 0700; "" or one others can write = no memory
  std::string name;                                        // of its files there: "probe-nvidia"
  bool outlives = false;                                   // a slow one may, when this object, and soon this process, ends
  Millis longest_silence{120'000};                         // of one that is still coming: a fresh one may be answered
};

// How asking went. What was read before a bad end has been delivered and is good.
struct ProbeOutcome {
  enum class End {
    complete,     // everything was answered
    timed_out,    // it did not finish in time: killed, or abandoned if it could not be killed
    crashed,      // it ended by itself before the end of its answer
    occupied,     // another probe of ours has been stuck, or has been asking, for as long as we could wait: none was started
    not_started,  // the program could not be run
  };
  End end = End::complete;
  std::string detail;                                      // a clause: "killed by signal 11", "process 4711 cannot be killed"
  std::optional<WallTime> stuck_since;                     // timed_out, occupied: when the unanswered question was asked
};

// Takes each line of the answer as it comes; may return how long the next one may take, where that is shorter than what is left
// of the patience. Each line decides anew.
using OnRecord = std::function<std::optional<Millis>(std::string_view line)>;

// Asked when the patience is over: whether the probe is slow and not stuck. Then it is left at work, and the same question
// asked again hears the rest of its answer; but not one that has never said a word of it for `longest_silence`.
using StillComing = std::function<bool()>;

// The last answer that was complete, by whichever process of this user.
struct LastAnswer {
  std::string request;
  std::vector<std::string> lines;
  Millis age{0};
};

// Whether an answer serves whoever asks at the time: another's may be taken for ours, and it is kept as the last one. What only
// one asker can use is his own.
enum class AnswerFor { all, asker };

class ProbeRunner {
 public:
  explicit ProbeRunner(ProbeOptions options) : options_(std::move(options)) {}
  ~ProbeRunner();
  ProbeRunner(const ProbeRunner&) = delete;
  ProbeRunner& operator=(const ProbeRunner&) = delete;

  // Asks one question. Returns within `patience` (and a few ms), whatever the probe does. The probe stays for the next
  // question; it leaves by itself after 10 s without one, or when this object is destroyed.
  ProbeOutcome ask(const std::string& request, Millis patience, const OnRecord& on_record,
                   AnswerFor whom = AnswerFor::all, const StillComing& still_coming = {});

  bool warm() const { return static_cast<bool>(channel_); }  // a probe is waiting for the next question
  std::optional<LastAnswer> last_answer() const;
  bool has_memory() const;                                 // the runtime directory is there and is ours alone

  // Ends the probe: kills it, waits a moment, and otherwise abandons it.
  void discard();

 private:
  std::optional<ProbeOutcome> take_lock(SteadyTime deadline);
  std::optional<std::string> start();
  std::string no_probe(int sys_errno) const;
  // A question whose answer has not ended.
  struct Pending {
    std::string request;
    std::vector<std::string> lines;
    std::int64_t began_ms = 0;
  };
  ProbeOutcome put(Pending& question, SteadyTime deadline, const OnRecord& on_record, const StillComing& still_coming);
  ProbeOutcome hear(Pending& question, SteadyTime deadline, const OnRecord& on_record, const StillComing& still_coming);
  ProbeOutcome late() const;
  ProbeOutcome give_up();
  std::string describe_end();
  std::optional<LastAnswer> kept_answer(const char* which) const;
  std::optional<ProbeOutcome> replay_if_newer(const std::string& request, std::int64_t asked_ms,
                                              const OnRecord& on_record) const;
  void remember(const Pending& question, const char* which) const;
  std::string file(const char* suffix) const { return options_.runtime_dir + "/" + options_.name + suffix; }

  ProbeOptions options_;
  AskingLock asking_{file(".lock")};
  Fd channel_;                                             // our end of the socket pair
  pid_t pid_ = 0;
  std::string buffer_;
  std::optional<Pending> pending_;                         // being answered by a probe that is slow
};

}  // namespace thole::host
