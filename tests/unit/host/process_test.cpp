// Looking up programs, their environment, and starting with a mask, a directory and kept descriptors; one in the foreground.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/claim/command_life.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/clock/system_clock.hpp"
#include "host/process/local_commands.hpp"
#include "host/process/spawn.hpp"

namespace thole::host {
namespace {

using Words = std::vector<std::string>;

TEST(PathsToTry, AreThoseOfExecvp) {
  EXPECT_EQ(paths_to_try("python", "/usr/bin:/bin"), (Words{"/usr/bin/python", "/bin/python"}));
  EXPECT_EQ(paths_to_try("./python", "/usr/bin:/bin"), (Words{"./python"}));
  EXPECT_EQ(paths_to_try("sub/python", "/usr/bin"), (Words{"sub/python"}));
  EXPECT_EQ(paths_to_try("python", ":/bin:"), (Words{"python", "/bin/python", "python"}));  // an empty entry is here
  EXPECT_EQ(paths_to_try("", "/bin"), (Words{""}));
}

TEST(JobEnvironment, SetsAndUnsetsOnTopOfTheCallers) {
  const char* base[] = {"HOME=/home/a", "CUDA_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=2", "CUDA=x", "odd", nullptr};
  port::ProcessSpec spec;
  spec.set = {{"CUDA_VISIBLE_DEVICES", "3"}, {"EMPTY", ""}};
  spec.unset = {"ROCR_VISIBLE_DEVICES", "NOT_THERE"};
  EXPECT_EQ(job_environment(base, spec), (Words{"HOME=/home/a", "CUDA=x", "odd", "CUDA_VISIBLE_DEVICES=3", "EMPTY="}));
  EXPECT_EQ(job_environment(nullptr, {}), Words{});
}

// Our standard output is this descriptor while it lives.
class RedirectedOutput {
 public:
  explicit RedirectedOutput(const Fd& to) : saved_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10)) {
    std::fflush(stdout);
    ::dup2(to.get(), STDOUT_FILENO);
  }
  ~RedirectedOutput() { ::dup2(saved_.get(), STDOUT_FILENO); }
  RedirectedOutput(const RedirectedOutput&) = delete;

 private:
  Fd saved_;
};

// Commands in our terminal, one after the other.
class Living {
 public:
  void begin(const port::ProcessSpec& spec) {
    life_.emplace(commands_, clock_, 0, plan::Manner{}, app::LifeEvents{});
    life_->begin(spec);
  }

  port::Ended end() {
    while (!life_->is_over()) {
      for (const port::CommandEvent& event : commands_.wait(life_->deadline())) life_->heard(event);
      life_->passed();
    }
    return life_->ended();
  }

  port::Ended live(const port::ProcessSpec& spec) {
    begin(spec);
    return end();
  }

 private:
  const InheritedSignals inherited_ = InheritedSignals::capture();
  SystemClock clock_;
  LocalCommands commands_{inherited_, LocalCommands::Runs::in_foreground};
  std::optional<app::CommandLife> life_;
};

// What a command wrote to its standard output, and how it ended.
struct Outcome { std::string output; int status; };

Outcome outcome_of(const port::ProcessSpec& spec) {
  Pipe output = make_pipe();
  Living living;
  {
    RedirectedOutput redirected(output.write);
    living.begin(spec);
  }
  output.write.reset();
  const port::Ended ended = living.end();
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(output.read.get(), buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  return {text, ended.exit_code.value_or(-1)};
}

port::ProcessSpec command(Words argv) {
  port::ProcessSpec spec;
  spec.argv = std::move(argv);
  return spec;
}

TEST(Start, AppliesDirectoryAndVariables) {
  auto spec = command({"sh", "-c", "pwd; echo $WORD"});
  spec.cwd = "/usr/lib";
  spec.set["WORD"] = "set";
  EXPECT_EQ(outcome_of(spec).output, "/usr/lib\nset\n");
}

TEST(Start, LooksProgramsUpInTheNewPath) {
  auto spec = command({"sh", "-c", "exit 3"});
  spec.set["PATH"] = "/no/such:/bin";
  EXPECT_EQ(outcome_of(spec).status, 3);
  spec.set["PATH"] = "/no/such";
  EXPECT_THROW(outcome_of(spec), Error);
}

TEST(Start, BindsToTheCpusBeforeTheProgramRuns) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  unsigned last = 0;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  auto spec = command({"sh", "-c", "grep Cpus_allowed_list /proc/self/status"});
  spec.binding.cpus.emplace();
  spec.binding.cpus->add(last);
  EXPECT_EQ(outcome_of(spec).output, fmt::format("Cpus_allowed_list:\t{}\n", last));
  EXPECT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
}

TEST(Start, KeptDescriptorsArriveAtTenAndAboveAndNoOthers) {
  auto spec = command({"sh", "-c", "ls /proc/$$/fd"});
  const std::string before = outcome_of(spec).output;  // what this test was started with
  Pipe pipe = make_pipe();
  spec.keep = {pipe.read.get(), pipe.write.get()};
  const std::string after = outcome_of(spec).output;
  std::vector<std::string_view> more;
  const auto old = split_lines(before);
  for (auto number : split_lines(after))
    if (std::ranges::find(old, number) == old.end()) more.push_back(number);
  ASSERT_EQ(more.size(), 2u) << after;
  for (auto number : more) EXPECT_GE(*parse_u64(number), 10u);
}

struct Refusal { const char* name; port::ProcessSpec spec; ErrorCode code; const char* message; };

TEST(Start, SaysWhyItCannot) {
  auto in_directory = command({"true"});
  in_directory.cwd = "/no/such/directory";
  auto on_cpus = command({"true"});
  on_cpus.strict = true;
  on_cpus.binding.cpus.emplace();
  on_cpus.binding.cpus->add(4095);
  auto with_closed = command({"true"});
  with_closed.keep = {987};
  const Refusal table[] = {
      {"missing", command({"no-such-program-here"}), ErrorCode::not_found, "no such command"},
      {"path", command({"/no/such/program"}), ErrorCode::not_found, "no such command"},
      {"directory", command({"/tmp"}), ErrorCode::not_executable, "cannot run"},
      {"not executable", command({"/etc/passwd"}), ErrorCode::not_executable, "cannot run"},
      {"empty", command({""}), ErrorCode::not_found, "no such command"},
      {"nothing", command({}), ErrorCode::usage, "no command"},
      {"cwd", in_directory, ErrorCode::unavailable, "working directory"},
      {"cpus", on_cpus, ErrorCode::unavailable, "CPUs"},
      {"descriptor", with_closed, ErrorCode::internal, "claim"},
  };
  for (const auto& row : table) {
    try {
      Living().begin(row.spec);
      ADD_FAILURE() << row.name << " started";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << row.name;
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << row.name << ": " << error.what();
    }
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << row.name << " left a child";
  }
}

// The child could not tell of it, and its end would be taken for the command's own.
TEST(Start, ACommandThatCannotBeStartedForWantOfDescriptorsIsNotTakenForOneThatHasRun) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Living living;
  auto spec = command({"true"});
  spec.keep = {STDIN_FILENO};                    // as of a claim: the child needs a descriptor more than we
  unsigned refused = 0;
  for (rlim_t room = 3; room < 64; ++room) {
    const rlimit few{room, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    std::optional<Error> why;
    try {
      living.begin(spec);
    } catch (const Error& error) {
      why = error;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    if (!why) {
      ASSERT_EQ(living.end().exit_code, 0) << room;   // which also lets signals in again
      continue;
    }
    ++refused;
    EXPECT_EQ(why->code(), ErrorCode::unavailable) << room;
    EXPECT_EQ(why->sys_errno(), EMFILE) << room;
    EXPECT_EQ(why->hint(), mend_of_want(EMFILE)) << room;
  }
  EXPECT_GT(refused, 0u);
}

TEST(Foreground, TellsHowTheCommandEnded) {
  Living living;
  port::Ended ended = living.live(command({"sh", "-c", "exit 42"}));
  EXPECT_EQ(ended.exit_code, 42);
  EXPECT_FALSE(ended.signal);
  ended = living.live(command({"sh", "-c", "kill -TERM $$"}));
  EXPECT_EQ(ended.signal, SIGTERM);
  EXPECT_FALSE(ended.exit_code);
  EXPECT_FALSE(ended.time_limit);
}
TEST(Foreground, LeavesChildrenFromBeforeAlone) {
  Pipe end = make_pipe();
  pid_t stranger = ::fork();
  if (stranger == 0) {
    end.write.reset();
    char byte;
    ::_exit(static_cast<int>(::read(end.read.get(), &byte, 1)));
  }
  const port::Ended ended = Living().live(command({"true"}));
  EXPECT_TRUE(ended.left_behind.empty());
  EXPECT_EQ(::waitpid(stranger, nullptr, WNOHANG), 0) << "it lives";
  end.write.reset();
  EXPECT_EQ(::waitpid(stranger, nullptr, 0), stranger);
}

TEST(Foreground, RestoresTheMaskOfSignals) {
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Living living;
  living.live(command({"true"}));
  EXPECT_THROW(living.begin(command({"no-such-program-here"})), Error);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
}

TEST(Interruption, HoldsSignalsBackForItsDescriptor) {
  Interruption interruption(InheritedSignals::capture());
  EXPECT_FALSE(interruption.taken());
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(interruption.taken(), SIGTERM);
  EXPECT_FALSE(interruption.taken());
}

}  // namespace
}  // namespace thole::host
