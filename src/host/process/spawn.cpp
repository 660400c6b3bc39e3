#include "host/process/spawn.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/cannot_run.hpp"
#include "host/process/spawn_tables.hpp"

namespace thole::host {
namespace {

constexpr int first_kept = 10;                      // scripts use descriptors 3 to 9 as they like
constexpr const char* default_path = "/bin:/usr/bin";  // what execvp uses without PATH

std::string path_of(const std::vector<std::string>& environment) {
  for (const auto& word : environment)
    if (word.starts_with("PATH=")) return word.substr(5);
  return default_path;
}

void add_unless_changed(std::vector<std::string>& environment, const std::string& word, const port::ProcessSpec& spec) {
  const std::string name = word.substr(0, word.find('='));
  if (!spec.set.contains(name) && std::ranges::find(spec.unset, name) == spec.unset.end()) environment.push_back(word);
}

std::vector<std::string> environment_for(const port::ProcessSpec& spec) {
  if (!spec.base) return job_environment(environ, spec);
  std::vector<std::string> result;
  for (const auto& word : *spec.base) add_unless_changed(result, word, spec);
  for (const auto& [name, value] : spec.set) result.push_back(name + "=" + value);
  return result;
}

// Both output streams, and nothing to read.
bool redirect(int output, int errors) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::dup2(nothing, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(errors >= 0 ? errors : output, 2) < 0)
    return false;
  return nothing <= 2 || ::close(nothing) == 0;
}

// A number beyond the limit is EINVAL to the kernel; what is wanting are descriptors.
int copy_above(int fd, int how, int least) {
  const int copy = ::fcntl(fd, how, least);
  if (copy < 0 && errno == EINVAL) errno = EMFILE;
  return copy;
}

// clone3(2); -1 where the kernel refuses, for whatever reason: it is too old, a filter forbids it, the cgroup is none.
pid_t fork_into(int cgroup) {
  struct {
    std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
  } how = {};
  how.flags = 0x200000000;  // CLONE_INTO_CGROUP; the libc's header lacks it
  how.exit_signal = SIGCHLD;
  how.cgroup = static_cast<std::uint64_t>(cgroup);
  return static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
}

}  // namespace

std::vector<std::string> paths_to_try(const std::string& program, const std::string& path) {
  if (program.empty() || program.find('/') != std::string::npos) return {program};
  std::vector<std::string> result;
  for (auto directory : split(path, ':'))
    result.push_back(directory.empty() ? program : std::string(directory) + "/" + program);
  return result;
}

std::vector<std::string> job_environment(const char* const* base, const port::ProcessSpec& spec) {
  std::vector<std::string> result;
  for (; base && *base; ++base) add_unless_changed(result, *base, spec);
  for (const auto& [name, value] : spec.set) result.push_back(name + "=" + value);
  return result;
}

Launch::Launch(const port::ProcessSpec& spec, const InheritedSignals& inherited)
    : spec_(spec), inherited_(inherited), environment_(environment_for(spec)), binding_(spec.binding, spec.strict) {
  envp_ = pointers(environment_);
  copies_.resize(spec.numbered.size());
  above_ = first_kept;
  for (const auto& [ours, number] : spec.numbered) above_ = std::max(above_, number + 1);
  if (spec.life >= 0) life_path_ = fmt::format("/proc/self/fd/{}", spec.life);
  arguments_changed();
}

void Launch::arguments_changed() {
  if (spec_.argv.empty()) throw Error(ErrorCode::usage, "no command to run");
  argv_.clear();
  for (const auto& word : spec_.argv) argv_.push_back(const_cast<char*>(word.c_str()));  // execve takes them as const
  argv_.push_back(nullptr);
  shell_argv_.assign({const_cast<char*>("/bin/sh"), nullptr});
  shell_argv_.insert(shell_argv_.end(), argv_.begin() + 1, argv_.end());
  if (program_ == spec_.argv[0] && !candidates_.empty()) return;
  program_ = spec_.argv[0];
  candidates_ = paths_to_try(program_, path_of(environment_));
  // So that each of many starts does not try them again.
  std::erase_if(candidates_, [](const std::string& path) {
    return path.starts_with('/') && ::access(path.c_str(), F_OK) != 0 && errno == ENOENT;
  });
}

int Launch::exec_any() {
  int reason = ENOENT;
  bool denied = false;
  for (const auto& path : candidates_) {
    ::execve(path.c_str(), argv_.data(), envp_.data());
    reason = errno;
    if (reason == ENOEXEC) {  // a script without #!, which execvp hands to the shell
      shell_argv_[1] = const_cast<char*>(path.c_str());
      ::execve("/bin/sh", shell_argv_.data(), envp_.data());
      return errno;
    }
    if (reason == EACCES) denied = true;
    else if (reason != ENOENT && reason != ENOTDIR && reason != ESTALE && reason != ENODEV && reason != ETIMEDOUT)
      return reason;
  }
  return denied ? EACCES : reason;
}

namespace {

bool note_reached(const port::ProcessSpec::Note& note) {
  if (note.file < 0) return true;
  const std::int32_t pid = ::getpid();
  return ::pwrite(note.file, &pid, sizeof pid, static_cast<off_t>(note.pid_offset)) == sizeof pid &&
         ::pwrite(note.file, &note.text, sizeof note.text, static_cast<off_t>(note.offset)) == sizeof note.text;
}

}  // namespace

Launch::Failure Launch::prepare(void (*at_stop)(int)) {
  for (int fd : spec_.keep)
    if (copy_above(fd, F_DUPFD, first_kept) < 0) return {Stage::descriptors, errno};
  switch (binding_.apply()) {
    case BindingStep::Failed::nothing: break;
    case BindingStep::Failed::cpus: return {Stage::cpus, 0};
    case BindingStep::Failed::memory: return {Stage::memory, 0};
  }
  if (!spec_.cwd.empty() && ::chdir(spec_.cwd.c_str()) != 0) return {Stage::directory, errno};
  if (spec_.own_group) ::setpgid(0, 0);
  if (spec_.mask) ::umask(*spec_.mask);
  if (spec_.output >= 0 && !redirect(spec_.output, spec_.errors)) return {Stage::descriptors, errno};
  if (spec_.life >= 0 && !tie_to_life()) return {Stage::life, errno};
  if (!put_descriptors()) return {Stage::descriptors, errno};
  inherited_.restore(at_stop);
  if (!note_reached(spec_.reached)) return {Stage::note, errno};
  set_soft_limits(spec_.limits);                 // last: from here on there may be no room for us
  return {Stage::none, 0};
}

// By way of copies above all numbers that are given out: one of ours may have the number that another is to get.
bool Launch::put_descriptors() {
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if ((copies_[i] = copy_above(spec_.numbered[i].first, F_DUPFD_CLOEXEC, above_)) < 0) return false;
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if (::dup2(copies_[i], spec_.numbered[i].second) < 0) return false;
  return true;
}

// How it works. Of a file description that has an owner and a signal (F_SETOWN, F_SETSIG, O_ASYNC) the kernel sends that signal
// when something happens to it, and nothing ever happens to this pipe but its end. Unlike PR_SET_PDEATHSIG it does not depend
// on the thread that started us, and reaches the whole group. Each child needs descriptions of its own, hence the opens; they
// stay open over exec. Two of them, for the kernel goes through the group twice then: unlike kill(2), this signal misses what
// is forked while it is given out (seen on Linux 6.18: 1 in 2,000 ends during a fork; none in 140,000 with two).
// Whether the writer has gone before that, only the first description knows.
bool Launch::tie_to_life() {
  for (int i = 0; i < 2; ++i)
    if (!open_life()) return false;
  pollfd life{spec_.life, 0, 0};
  if (::poll(&life, 1, 0) == 0) return true;
  errno = EPIPE;
  return false;
}

bool Launch::open_life() {
  const int opened = ::open(life_path_.c_str(), O_RDONLY | O_NONBLOCK);
  if (opened < 0) return false;
  const int kept = copy_above(opened, F_DUPFD, above_);
  return kept >= 0 && ::close(opened) == 0 && ::fcntl(kept, F_SETOWN, -::getpid()) == 0 &&
         ::fcntl(kept, F_SETSIG, SIGKILL) == 0 && ::fcntl(kept, F_SETFL, O_ASYNC | O_NONBLOCK) == 0;
}

int Launch::child(void* launch) {
  auto& self = *static_cast<Launch*>(launch);
  Failure failure = self.prepare([](int) {});
  if (failure.stage == Stage::none) failure = {Stage::exec, self.exec_any()};
  self.failure_ = failure;
  const int up = self.failures_.write.get();
  [[maybe_unused]] ssize_t n = up >= 0 ? ::write(up, &failure, sizeof failure) : 0;
  ::_exit(127);
}

// Its end for the child is above all that the child puts: one that no child could make a copy of could not tell so either.
void Launch::open_failures() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw not_started("a process", errno);
  failures_ = {Fd(above_standard(ends[0])), Fd(ends[1])};
  failures_.write = Fd(copy_above(ends[1], F_DUPFD_CLOEXEC, above_));
  if (!failures_.read || !failures_.write) throw not_started("a process", errno);
}

pid_t Launch::start(int cgroup) {
  open_failures();
  pid_t pid = cgroup >= 0 ? fork_into(cgroup) : -1;
  if (pid == 0) child(this);
  if (pid < 0) pid = start_here(nullptr);
  if (pid < 0) throw not_started("a process", errno);
  failures_.write.reset();
  Failure failure;
  ssize_t n;
  do { n = ::read(failures_.read.get(), &failure, sizeof failure); } while (n < 0 && errno == EINTR);
  failures_.read.reset();
  if (n != sizeof failure) {
    tell_bound();
    return pid;
  }
  ::waitpid(pid, nullptr, 0);
  report(failure);
}

pid_t Launch::start_here(int* end) {
#ifdef THOLE_SANITIZED
  pid_t pid = ::fork();  // the sanitizers keep state that a child with our memory would spoil
  if (pid == 0) child(this);
  if (end && pid > 0) *end = open_pidfd(pid).release();
  return pid;
#else
  void* stack = stack_.end();
  if (!stack) return -1;
  return ::clone(&Launch::child, stack, CLONE_VM | CLONE_VFORK | SIGCHLD | (end ? CLONE_PIDFD : 0), this, end);
#endif
}

// Only a child that shares our memory has left its failure there by now.
pid_t Launch::start_again(Fd& end) {
#ifdef THOLE_SANITIZED
  const pid_t pid = start();
  end = open_pidfd(pid);
#else
  failure_ = {Stage::none, 0};
  int descriptor = -1;
  const pid_t pid = start_here(&descriptor);
  if (pid < 0) throw not_started("a process", errno);
  end = Fd(descriptor);
  if (failure_.stage != Stage::none) {
    ::waitpid(pid, nullptr, 0);
    end.reset();                                 // an idle one keeps no descriptor that others want for
    report(failure_);
  }
  tell_bound();
#endif
  if (!end) end = open_pidfd(pid);
  return pid;
}

void Launch::become() {
  Failure failure = prepare(SIG_DFL);              // who stops us means us
  if (failure.stage != Stage::none) report(failure);
  tell_bound();
  report({Stage::exec, exec_any()});
}

void Launch::check_program() const {
  int reason = ENOENT;
  for (const auto& path : candidates_) {
    struct stat about;
    const bool there = ::stat(path.c_str(), &about) == 0;
    if (there && S_ISREG(about.st_mode) && may_execute(path))
      return refuse_without_interpreter(path, spec_.cwd, path_of(environment_));
    if (there || (errno != ENOENT && errno != ENOTDIR)) reason = EACCES;
  }
  report_exec(reason);
}

void Launch::tell_bound() const {
  if (spec_.bound) spec_.bound(binding_.bound());
}

void Launch::report(const Failure& failure) const {
  if (is_want(failure.reason)) throw not_started("a process", failure.reason).about(printable(spec_.argv[0]));
  switch (failure.stage) {
    case Stage::descriptors:
      throw Error(ErrorCode::internal, "cannot hand the claim to the command").because(failure.reason);
    case Stage::cpus: report_cpus();
    case Stage::memory: report_memory();
    case Stage::directory:
      throw Error(ErrorCode::unavailable, "cannot enter the working directory").about(spec_.cwd).because(failure.reason);
    case Stage::life:
      throw Error(ErrorCode::internal, "cannot tie the command to this process").because(failure.reason)
          .hint("it needs /proc");
    case Stage::note: throw port::NotNoted(failure.reason);
    case Stage::none:
    case Stage::exec: break;
  }
  report_exec(failure.reason);
}

// Only under `strict` is a binding that was refused, or that came out otherwise, an error.
void Launch::report_cpus() const {
  const model::Bound bound = binding_.bound();
  Error error(ErrorCode::unavailable, fmt::format("cannot bind the command to CPUs {}{}", spec_.binding.cpus->to_string(),
                                                  bound.cpus_refused == 0 && bound.got.cpus
                                                      ? fmt::format(": the kernel gave {}", bound.got.cpus->to_string())
                                                      : ""));
  throw std::move(error)
      .because(bound.cpus_refused)
      .hint("see which CPUs are allowed here: taskset -cp $$; or leave out --strict");
}

void Launch::report_memory() const {
  const model::Bound bound = binding_.bound();
  Error error(ErrorCode::unavailable, fmt::format("cannot set the memory policy \"{}\"{}", to_string(*spec_.binding.memory),
                                                  bound.memory_refused == 0 && bound.got.memory
                                                      ? fmt::format(": the kernel gave {}", to_string(*bound.got.memory))
                                                      : ""));
  throw std::move(error)
      .because(bound.memory_refused)
      .hint("in a container it takes --cap-add SYS_NICE; or leave out --strict");
}

void Launch::report_exec(int reason) const {
  throw_cannot_run(spec_.argv[0], spec_.cwd, path_of(environment_), reason);
}

}  // namespace thole::host
