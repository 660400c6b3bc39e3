#include "host/process/task_pool.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"
#include "host/process/child_end.hpp"
#include "host/process/helpers.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

using Kind = port::PoolEvent::Kind;

constexpr std::size_t kept_in_memory = 64 * 1024;   // a longer text keeps its file
constexpr std::size_t pipe_room = 64 * 1024;        // what a pipe holds unless somebody made it larger
constexpr int heard[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
constexpr Millis between_looks{50}, after_orphans{5};   // at the children, while tasks run

std::vector<std::string> describe(const std::vector<ProcessStat>& processes) {
  std::vector<std::string> words;
  for (const ProcessStat& process : processes) words.push_back(describe_process(process));
  return words;
}

// With its group; one that has left that for another (setpgid) is to hear it, too.
void signal_command(pid_t command, int number) {
  ::kill(-command, number);
  if (::getpgid(command) != command) ::kill(command, number);
}

Fd descriptor_for(const sigset_t& set) {
  Fd fd(above_standard(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (!fd) throw not_had("cannot watch for signals", errno);
  return fd;
}

}  // namespace

EpollPool::EpollPool(const InheritedSignals& inherited, port::OutputTo output, std::string folder)
    : inherited_(inherited), to_(output), folder_(std::move(folder)), epoll_(above_standard(::epoll_create1(EPOLL_CLOEXEC))),
      had_strangers_(!strangers_.empty() || has_living_children() || ::getpid() == 1) {
  if (!epoll_) throw not_had("cannot watch over tasks", errno);
  ::signal(SIGCHLD, SIG_DFL);              // ignored, the kernel would keep the tasks' statuses from us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set;
  sigemptyset(&set);
  for (int number : heard)
    if (!inherited_.ignores(number)) sigaddset(&set, number);
  listen((signals_ = descriptor_for(set)).get(), Source::signals, 0);
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  listen((children_ = descriptor_for(set)).get(), Source::children, 0, EPOLLIN | EPOLLET);
}

EpollPool::~EpollPool() = default;

void EpollPool::listen(int fd, Source source, std::size_t number, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint64_t>(source) << 32 | number;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw not_had("cannot watch over a task", errno);
}

// By name: a copy in a child of another thread, before it execs, would keep what is only closed among the watched.
void EpollPool::forget(Fd& fd) const {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
  fd.reset();
}

std::size_t EpollPool::open(port::ProcessSpec spec) {
  auto place = std::make_unique<Place>();
  place->spec = std::move(spec);
  place->spec.own_group = true;
  const auto free = std::find(places_.begin(), places_.end(), nullptr);
  const auto number = static_cast<std::size_t>(free - places_.begin());
  if (free == places_.end()) places_.emplace_back();
  places_[number] = std::move(place);
  return number;
}

void EpollPool::close(std::size_t place) { places_[place].reset(); }

std::vector<std::string>& EpollPool::words(std::size_t place) { return places_[place]->spec.argv; }

Fd EpollPool::nameless_file() const {
  Fd file = open_at(AT_FDCWD, folder_.c_str(), O_TMPFILE | O_RDWR | O_APPEND, 0600);
  if (!file) file = Fd(above_standard(::memfd_create("thole-output", MFD_CLOEXEC)));  // a file system without nameless files
  if (!file) throw not_had("cannot make a file for a task's output", errno);
  return file;
}

void EpollPool::prepare_streams(Place& place, std::size_t number) {
  if (to_ == port::OutputTo::ours) {
    place.spec.output = STDOUT_FILENO;
    place.spec.errors = STDERR_FILENO;
    return;
  }
  for (Stream* stream : {&place.output, &place.errors}) {
    int& theirs = stream == &place.output ? place.spec.output : place.spec.errors;
    if (to_ == port::OutputTo::files) {
      if (!stream->file) stream->file = nameless_file();
      theirs = stream->file.get();
      continue;
    }
    Pipe pipe = make_pipe();
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    listen(pipe.read.get(), stream == &place.output ? Source::output : Source::errors, number);
    stream->file = std::move(pipe.read);
    theirs = pipe.write.release();               // closed when the task runs
  }
}

void EpollPool::check_program(const std::string& program) {
  port::ProcessSpec spec;
  spec.argv = {program};
  Launch(spec, inherited_).check_program();
}

void EpollPool::start(std::size_t number) {
  Place& place = *places_[number];
  place.spec.output = place.spec.errors = -1;
  const auto close_theirs = [&] {
    if (to_ != port::OutputTo::pipes) return;
    for (const int end : {place.spec.output, place.spec.errors})
      if (end >= 0) ::close(end);
  };
  try {
    prepare_streams(place, number);
    if (place.launch) place.launch->arguments_changed();
    else place.launch = std::make_unique<Launch>(place.spec, inherited_);
    place.pid = place.launch->start_again(place.end);
  } catch (...) {
    close_theirs();
    for (Stream* stream : {&place.output, &place.errors}) forget(stream->file);   // others may want for descriptors, too
    throw;
  }
  close_theirs();
  place.spec.bound = nullptr;                    // told once
  listen_for_end(place, number);
}

// Of whose end we could not know must not run on; what was begun is not to be begun again, so this is no want that passes.
void EpollPool::listen_for_end(Place& place, std::size_t number) {
  try {
    listen(place.end.get(), Source::task, number);
  } catch (const Error& error) {
    ::kill(-place.pid, SIGKILL);
    ::waitpid(place.pid, nullptr, 0);
    place.pid = 0;
    place.end.reset();
    throw Error(error.code(), error.full());
  }
}

void EpollPool::signal(std::size_t place, model::Signal signal) {
  const pid_t command = places_[place]->pid;
  if (command <= 0) return;
  signal_command(command, static_cast<int>(signal));
  if (signal == model::Signal::kill || signal == model::Signal::stop) return;
  signal_command(command, SIGCONT);              // a stopped one must run to hear it
}

std::vector<std::string> EpollPool::group(std::size_t place) {
  std::vector<ProcessStat> members = our_descendants();
  std::erase_if(members, [group = places_[place]->pid](const ProcessStat& process) { return process.group != group; });
  return describe(members);
}

std::vector<std::string> EpollPool::out_of_reach() {
  std::vector<ProcessStat> others = members();
  std::erase_if(others, [](const ProcessStat& process) { return signal_process(process, 0); });
  return out_of_reach_.new_ones(others);
}

// A member that has another parent than us is below one of these, or below what has left the group.
void EpollPool::give_up(std::size_t number) {
  Place& place = *places_[number];
  for (const ProcessStat& process : our_descendants({{place.pid}}))
    if (process.parent == ::getpid() && process.group == place.pid) strangers_.push_back(process.pid);
  if (to_ == port::OutputTo::pipes)
    for (Stream* stream : {&place.output, &place.errors})
      if (stream->file) forget(stream->file);
  if (place.end) forget(place.end);
  if (std::exchange(place.left_group, false)) --groups_left_;
  place.given_up = true;
  let_go_of_group(place);
}

port::Written EpollPool::take(Stream& stream, bool used_again) const {
  port::Written written;
  struct stat about {};
  if (!stream.file || ::fstat(stream.file.get(), &about) != 0 || about.st_size == 0) {
    if (!used_again) stream.file.reset();
    return written;
  }
  written.bytes = static_cast<std::uint64_t>(about.st_size);
  if (written.bytes > kept_in_memory) {
    written.file = std::move(stream.file);
    return written;
  }
  written.text.resize(written.bytes);
  const ssize_t n = ::pread(stream.file.get(), written.text.data(), written.bytes, 0);
  written.text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  if (!used_again || ::ftruncate(stream.file.get(), 0) != 0) stream.file.reset();
  else ::lseek(stream.file.get(), 0, SEEK_SET);  // a memfd does not append
  return written;
}

// What a task has left in a session of its own is our child by now, and has the files.
bool EpollPool::may_others_write() const {
  const auto is_there = [](const auto& place) { return place && place->pid > 0; };
  const auto commands = static_cast<std::size_t>(std::ranges::count_if(places_, is_there));
  return number_of_own_children().value_or(commands + 1) > commands;
}

port::TaskOutput EpollPool::take_output(std::size_t number) {
  Place& place = *places_[number];
  if (to_ != port::OutputTo::files) return {};
  const bool used_again = !place.left_group && !place.given_up && !may_others_write();
  return {take(place.output, used_again), take(place.errors, used_again)};
}

void EpollPool::watch(int fd) { listen(fd, Source::watched, static_cast<std::size_t>(fd)); }
void EpollPool::unwatch(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void EpollPool::hold_texts(bool on) {
  if (to_ != port::OutputTo::pipes || std::exchange(holds_texts_, on) == on) return;
  for (std::size_t number = 0; number < places_.size(); ++number) {
    if (!places_[number]) continue;
    Place& place = *places_[number];
    for (auto [stream, source] : {std::pair{&place.output, Source::output}, {&place.errors, Source::errors}}) {
      if (!stream->file) continue;
      if (on) unwatch(stream->file.get());
      else listen(stream->file.get(), source, number);
    }
  }
}

std::span<const port::PoolEvent> EpollPool::wait(std::optional<SteadyTime> deadline) {
  events_.clear();
  if (to_ == port::OutputTo::pipes)
    for (auto& place : places_)
      if (place) { place->output.buffer.clear(); place->errors.buffer.clear(); }
  if (stirred_) {
    const SteadyTime look = heeds_each_end() ? SteadyTime{} : next_look_;
    deadline = deadline ? std::min(*deadline, look) : look;
  }
  std::array<epoll_event, 64> ready;
  const int timeout = poll_timeout(deadline, std::chrono::steady_clock::now());
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = ready[static_cast<std::size_t>(i)].data.u64;
    happened(static_cast<Source>(data >> 32), data & 0xffffffffu);
  }
  if (stirred_ && (heeds_each_end() || std::chrono::steady_clock::now() >= next_look_)) look_at_children();
  if (groups_left_ > 0) look_at_groups();   // also at the deadline: nobody tells of a group that was left by setsid()
  return events_;
}

void EpollPool::happened(Source source, std::size_t number) {
  switch (source) {
    case Source::task: return ended(number);
    case Source::output:
    case Source::errors: return read_stream(number, source == Source::errors, false);
    case Source::signals: return read_signals();
    case Source::children:
      stirred_ = true;
      return;
    case Source::watched: {
      port::PoolEvent event;
      event.kind = Kind::readable;
      event.number = static_cast<int>(number);
      events_.push_back(std::move(event));
    }
  }
}

void EpollPool::ended(std::size_t number) {
  Place& place = *places_[number];
  siginfo_t how{};
  const auto pid = static_cast<id_t>(place.pid);
  if (!place.end || ::waitid(P_PID, pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0) return;
  forget(place.end);
  if (to_ == port::OutputTo::pipes) {
    read_stream(number, false, true);
    read_stream(number, true, true);
  }
  port::PoolEvent event;
  event.kind = Kind::ended;
  event.place = number;
  put_how(event.how, how_ended(how));
  event.left_group = place.left_group = group_lives(place.pid);
  if (!place.left_group) let_go_of_group(place);
  else ++groups_left_;
  events_.push_back(std::move(event));
}

// One event a stream and a wait; what a task wrote before its end comes before the event of its end.
void EpollPool::read_stream(std::size_t number, bool errors, bool to_the_end) {
  Stream& stream = errors ? places_[number]->errors : places_[number]->output;
  if (!stream.file) return;
  const std::size_t before = stream.buffer.size();
  for (ssize_t n = 1; n > 0;) {
    const std::size_t used = stream.buffer.size();
    stream.buffer.resize(used + pipe_room);
    n = ::read(stream.file.get(), stream.buffer.data() + used, pipe_room);
    stream.buffer.resize(used + (n > 0 ? static_cast<std::size_t>(n) : 0));
    if (n == 0 || (n < 0 && errno != EAGAIN)) forget(stream.file);
    if (!to_the_end || !stream.file) break;
  }
  if (to_the_end && stream.file) forget(stream.file);
  const auto same = [&](const port::PoolEvent& event) {
    return event.kind == Kind::text && event.place == number && event.errors == errors;
  };
  const auto told = std::find_if(events_.begin(), events_.end(), same);
  if (told != events_.end()) { told->bytes = stream.buffer; return; }
  if (stream.buffer.size() == before) return;
  port::PoolEvent event;
  event.kind = Kind::text;
  event.place = number;
  event.errors = errors;
  event.bytes = stream.buffer;
  events_.push_back(std::move(event));
}

void EpollPool::read_signals() {
  signalfd_siginfo got;
  while (::read(signals_.get(), &got, sizeof got) == sizeof got) {
    port::PoolEvent event;
    event.kind = Kind::signal;
    event.number = static_cast<int>(got.ssi_signo);
    events_.push_back(std::move(event));
  }
}

void EpollPool::look_at_groups() {
  for (std::size_t number = 0; number < places_.size(); ++number) {
    Place* place = places_[number].get();
    if (!place || !place->left_group || group_lives(place->pid)) continue;
    place->left_group = false;
    let_go_of_group(*place);
    --groups_left_;
    port::PoolEvent event;
    event.kind = Kind::alone;
    event.place = number;
    events_.push_back(std::move(event));
  }
}

// What has outlived its parent is our child now. WSTOPPED alone does not see who has ended: ECHILD, and nobody lives of it. A
// member that still has another parent is below a process that has left the group: it is left behind with that one.
bool EpollPool::group_lives(pid_t group) const {
  siginfo_t any{};
  return ::waitid(P_PGID, static_cast<id_t>(group), &any, WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

// Only now the kernel may give its number to strangers: nothing is signalled by it any more.
void EpollPool::let_go_of_group(Place& place) {
  while (reap(P_PGID, place.pid) == Reaped::ended) {}
  place.pid = 0;
}

bool EpollPool::is_command(pid_t child) const {
  return std::ranges::any_of(places_, [child](const auto& place) { return place && place->pid == child; });
}

// Of the groups of all places; the commands are among them.
std::vector<ProcessStat> EpollPool::members() const {
  std::vector<pid_t> groups;
  for (const auto& place : places_)
    if (place && place->pid > 0) groups.push_back(place->pid);
  std::ranges::sort(groups);
  std::vector<ProcessStat> members = our_descendants(groups);
  std::erase_if(members, [&](const ProcessStat& process) { return !std::ranges::binary_search(groups, process.group); });
  return members;
}

bool EpollPool::heeds_each_end() const { return (groups_left_ > 0 || strays_left_) && !is_helper_starting(); }

// The signal is read first: who ends during the look makes another event.
void EpollPool::look_at_children() {
  signalfd_siginfo got[2];                       // one sent to the process, and one to this thread
  (void)!::read(children_.get(), got, sizeof got);
  stirred_ = false;
  const bool found = reap_orphans();
  next_look_ = std::chrono::steady_clock::now() + (found ? after_orphans : between_looks);
}

// All that have ended but our own helpers and the commands, whose ends are told by their own descriptors, and which may keep
// the numbers of their groups. Mostly nobody has ended, and the list of our children need not be read.
bool EpollPool::reap_orphans() {
  bool found = false;
  std::vector<pid_t> commands;
  for (siginfo_t any{}; ::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) == 0 && any.si_pid != 0; any = {}) {
    const auto listed = listed_children();
    if (is_helper_starting()) {                  // it may be among them, and is not known yet
      stirred_ = true;
      return found;
    }
    commands.clear();
    for (const auto& place : places_)
      if (place && place->pid > 0) commands.push_back(place->pid);
    std::ranges::sort(commands);
    bool reaped = false;
    for (const pid_t child : listed.value_or(std::vector<pid_t>{any.si_pid})) {
      if (std::ranges::binary_search(commands, child) || is_helper(child)) continue;
      reaped = reap(P_PID, child) == Reaped::ended || reaped;
    }
    found = found || reaped;
    if (listed || !reaped) break;
  }
  return found;
}

void EpollPool::stop_all() {
  for (const auto& place : places_)
    if (place && place->pid > 0) signal_command(place->pid, SIGSTOP);
  ::raise(SIGSTOP);
  for (const auto& place : places_)
    if (place && place->pid > 0) signal_command(place->pid, SIGCONT);
}

}  // namespace thole::host
