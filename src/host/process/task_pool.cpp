#include "host/process/task_pool.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/stop_self.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"
#include "base/words.hpp"
#include "host/process/child_end.hpp"
#include "host/process/helpers.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

using Kind = port::PoolEvent::Kind;

constexpr std::chrono::milliseconds between_looks_for_room{100};
constexpr std::size_t kept_in_memory = 64 * 1024;   // a longer text keeps its file
constexpr std::size_t pipe_room = 64 * 1024;        // what a pipe holds unless somebody made it larger
constexpr int heard[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
constexpr Millis between_looks{50}, after_orphans{5};   // at the children, while tasks run

std::size_t most_unheard() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 16;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 8, 4, 1024));
}

Fd descriptor_for(const sigset_t& set) {
  Fd fd(above_standard(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)));
  if (!fd) throw not_had("cannot watch for signals", errno);
  return fd;
}

}  // namespace

EpollPool::EpollPool(const InheritedSignals& inherited, port::OutputTo output, std::string folder)
    : inherited_(inherited), to_(output), files_(std::move(folder)), epoll_(above_standard(::epoll_create1(EPOLL_CLOEXEC))),
      most_unheard_(most_unheard()), had_strangers_(!strangers_.empty() || has_living_children() || ::getpid() == 1) {
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

std::size_t EpollPool::open(port::ProcessSpec spec, std::optional<std::size_t> again) {
  const auto free = std::find(bays_.begin(), bays_.end(), nullptr);
  const std::size_t number = again.value_or(static_cast<std::size_t>(free - bays_.begin()));
  if (number == bays_.size()) bays_.emplace_back();
  if (!again) bays_[number] = std::make_unique<Bay>();
  Bay& bay = *bays_[number];
  if (again) spec.argv = std::move(bay.spec.argv);
  bay.spec = std::move(spec);
  bay.spec.own_group = true;
  bay.spec.set["THOLE_PLACE"] = std::to_string(number + 1);
  bay.launch.reset();
  return number;
}

void EpollPool::close(std::size_t bay) { bays_[bay].reset(); }

std::vector<std::string>& EpollPool::words(std::size_t bay) { return bays_[bay]->spec.argv; }

Fd EpollPool::nameless_file() {
  Fd file = files_.make(O_APPEND);
  if (!file) throw not_had("cannot make a file for a task's output", errno);
  return file;
}

void EpollPool::prepare_streams(Bay& bay, std::size_t number) {
  if (to_ == port::OutputTo::ours) {
    bay.spec.output = STDOUT_FILENO;
    bay.spec.errors = STDERR_FILENO;
    return;
  }
  for (Stream* stream : {&bay.output, &bay.errors}) {
    int& theirs = stream == &bay.output ? bay.spec.output : bay.spec.errors;
    if (to_ == port::OutputTo::files) {
      if (!stream->file) stream->file = nameless_file();
      theirs = stream->file.get();
      continue;
    }
    Pipe pipe = make_pipe();
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    listen(pipe.read.get(), stream == &bay.output ? Source::output : Source::errors, number);
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
  Bay& bay = *bays_[number];
  bay.may_be_cut = false;
  bay.spec.output = bay.spec.errors = -1;
  const auto close_theirs = [&] {
    if (to_ != port::OutputTo::pipes) return;
    for (const int end : {bay.spec.output, bay.spec.errors})
      if (end >= 0) ::close(end);
  };
  try {
    prepare_streams(bay, number);
    if (bay.launch) bay.launch->arguments_changed();
    else bay.launch = std::make_unique<Launch>(bay.spec, inherited_);
    bay.pid = bay.launch->start_again(bay.end);
  } catch (...) {
    close_theirs();
    for (Stream* stream : {&bay.output, &bay.errors}) forget(stream->file);       // others may want for descriptors, too
    throw;
  }
  close_theirs();
  bay.spec.bound = nullptr;                      // told once
  listen_for_end(bay, number);
}

// Of whose end we could not know must not run on; what was begun is not to be begun again, so this is no want that passes.
void EpollPool::listen_for_end(Bay& bay, std::size_t number) {
  try {
    listen(bay.end.get(), Source::task, number);
  } catch (const Error& error) {
    ::kill(-bay.pid, SIGKILL);
    ::waitpid(bay.pid, nullptr, 0);
    bay.pid = 0;
    bay.end.reset();
    throw Error(error.code(), error.full());
  }
}

port::Written EpollPool::take(Stream& stream, bool used_again, std::string& lost) {
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
  std::optional<std::string> text = read_beginning(stream.file.get(), written.bytes);
  if (!text) lost = fmt::format("it cannot be read back ({})", std::strerror(errno));
  if (!text || !used_again || ::ftruncate(stream.file.get(), 0) != 0) stream.file.reset();
  written.text = std::move(text).value_or("");
  return written;
}

// A task has the limit of a file's size that we have, unless it sets another. Whoever meets it is sent a signal, but the shell
// that had started him may go on as if all were well.
bool EpollPool::is_at_limit(const port::Written& written) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && written.bytes >= limit.rlim_cur;
}

// What a task has left in a session of its own is our child by now, and has the files.
bool EpollPool::may_others_write() const {
  const auto is_there = [](const auto& bay) { return bay && bay->pid > 0; };
  const auto commands = static_cast<std::size_t>(std::ranges::count_if(bays_, is_there));
  return number_of_own_children().value_or(commands + 1) > commands;
}

port::TaskOutput EpollPool::take_output(std::size_t number) {
  Bay& bay = *bays_[number];
  if (to_ != port::OutputTo::files) return {};
  look_for_room(&bay);
  const bool used_again = !bay.left_group && !bay.given_up && !bay.may_be_cut && !may_others_write();
  port::TaskOutput taken;
  taken.output = take(bay.output, used_again, taken.cut);
  taken.errors = take(bay.errors, used_again, taken.cut);
  written_by_ended_ += taken.output.bytes + taken.errors.bytes;
  if (is_at_limit(taken.output) || is_at_limit(taken.errors))
    taken.cut = fmt::format("a file may have {} here (ulimit -f)",
                            plural(std::max(taken.output.bytes, taken.errors.bytes), "byte"));
  if (std::exchange(bay.may_be_cut, false)) taken.cut = "the disk of " + files_.folder() + " has filled up";
  return taken;
}

std::uint64_t EpollPool::written_by(const Bay& bay) {
  std::uint64_t bytes = 0;
  struct stat about {};
  for (const Stream* stream : {&bay.output, &bay.errors})
    if (stream->file && ::fstat(stream->file.get(), &about) == 0) bytes += static_cast<std::uint64_t>(about.st_size);
  return bytes;
}

bool EpollPool::has_file_on_disk(const Bay& bay) {
  const auto is_there = [](const Stream& stream) { return stream.file && is_on_disk(stream.file.get()); };
  return is_there(bay.output) || is_there(bay.errors);
}

// Nobody tells that a disk has filled up, and it may have room again by the end of who met that: so it is looked at now and
// then, and at each end where it has little room. Whoever runs then may have written. (A trial costs more than a short task
// may: there is none where little was written.)
void EpollPool::look_for_room(Bay* ended) {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now >= look_for_room_ || (ended && written_by(*ended) > kept_in_memory)) {
    look_for_room_ = now + between_looks_for_room;
    std::uint64_t written = written_by_ended_;
    for (const auto& bay : bays_)
      if (bay) written += written_by(*bay);
    const bool any_new = written != std::exchange(written_when_looked_, written);
    little_room_ = (any_new || little_room_) ? files_.has_little_room() : !files_.has_free_room();
  } else if (ended) {
    little_room_ = little_room_ || !files_.has_free_room();
  }
  if (!little_room_ || !files_.takes_no_more()) return;
  for (const auto& bay : bays_)
    if (bay && (bay->pid > 0 || bay.get() == ended)) bay->may_be_cut = bay->may_be_cut || has_file_on_disk(*bay);
}

void EpollPool::watch(int fd) { listen(fd, Source::watched, static_cast<std::size_t>(fd)); }
void EpollPool::unwatch(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void EpollPool::keep_texts(bool on) {
  if (to_ != port::OutputTo::pipes || std::exchange(keeps_texts_, on) == on) return;
  for (std::size_t number = 0; number < bays_.size(); ++number) {
    if (!bays_[number]) continue;
    Bay& bay = *bays_[number];
    for (auto [stream, source] : {std::pair{&bay.output, Source::output}, {&bay.errors, Source::errors}}) {
      if (!stream->file) continue;
      if (on) unwatch(stream->file.get());
      else listen(stream->file.get(), source, number);
    }
  }
}

std::span<const port::PoolEvent> EpollPool::wait(std::optional<SteadyTime> deadline) {
  events_.clear();
  picture_.reset();
  if (to_ == port::OutputTo::pipes)
    for (auto& bay : bays_)
      if (bay) { bay->output.buffer.clear(); bay->errors.buffer.clear(); }
  if (stirred_) {
    const SteadyTime look = heeds_each_end() ? SteadyTime{} : next_look_;
    deadline = deadline ? std::min(*deadline, look) : look;
  }
  const bool any_runs = std::ranges::any_of(bays_, [](const auto& bay) { return bay && bay->pid > 0; });
  const bool needs_room = to_ == port::OutputTo::files && any_runs;
  if (needs_room) deadline = deadline ? std::min(*deadline, look_for_room_) : look_for_room_;
  ready_.resize(std::max(ready_.size(), 64 + 3 * bays_.size() + unheard_.size()));   // for all that has happened
  const int timeout = poll_timeout(deadline, std::chrono::steady_clock::now());
  const int count = ::epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), timeout);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = ready_[static_cast<std::size_t>(i)].data.u64;
    happened(static_cast<Source>(data >> 32), data & 0xffffffffu);
  }
  if (stirred_ && (heeds_each_end() || std::chrono::steady_clock::now() >= next_look_)) look_at_children();
  if (needs_room) look_for_room();
  if (groups_left_ > 0) look_at_groups();   // also at the deadline: nobody tells of a group that was left by setsid()
  return events_;
}

void EpollPool::happened(Source source, std::size_t number) {
  switch (source) {
    case Source::task: return ended(number);
    case Source::output:
    case Source::errors: return read_stream(number, source == Source::errors, false);
    case Source::signals: return read_signals();
    case Source::unheard: return drop_unheard(static_cast<int>(number));
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
  Bay& bay = *bays_[number];
  siginfo_t how{};
  const auto pid = static_cast<id_t>(bay.pid);
  if (!bay.end || ::waitid(P_PID, pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0) return;
  forget(bay.end);
  bay.left_group = group_lives(bay);
  if (to_ == port::OutputTo::pipes) {
    for (const bool errors : {false, true}) read_stream(number, errors, true);
    if (!bay.left_group) end_streams(number);
  }
  port::PoolEvent event;
  event.kind = Kind::ended;
  event.bay = number;
  put_how(event.how, how_ended(how));
  event.left_group = bay.left_group;
  if (!bay.left_group) let_go_of_group(bay);
  else ++groups_left_;
  events_.push_back(std::move(event));
}

// One event a stream and a wait; what a task wrote before its end comes before the event of its end.
void EpollPool::read_stream(std::size_t number, bool errors, bool all) {
  Stream& stream = errors ? bays_[number]->errors : bays_[number]->output;
  if (!stream.file) return;
  const std::size_t before = stream.buffer.size();
  for (ssize_t n = 1; n > 0;) {
    const std::size_t used = stream.buffer.size();
    stream.buffer.resize(used + pipe_room);
    n = ::read(stream.file.get(), stream.buffer.data() + used, pipe_room);
    stream.buffer.resize(used + (n > 0 ? static_cast<std::size_t>(n) : 0));
    if (n == 0 || (n < 0 && errno != EAGAIN)) forget(stream.file);
    if (!all || !stream.file) break;
  }
  const auto same = [&](const port::PoolEvent& event) {
    return event.kind == Kind::text && event.bay == number && event.errors == errors;
  };
  const auto told = std::find_if(events_.begin(), events_.end(), same);
  if (told != events_.end()) { told->bytes = stream.buffer; return; }
  if (stream.buffer.size() == before) return;
  port::PoolEvent event;
  event.kind = Kind::text;
  event.bay = number;
  event.errors = errors;
  event.bytes = stream.buffer;
  events_.push_back(std::move(event));
}

// All of the task that could be shown as its own has ended.
void EpollPool::end_streams(std::size_t number) {
  for (const bool errors : {false, true}) {
    read_stream(number, errors, true);
    Stream& stream = errors ? bays_[number]->errors : bays_[number]->output;
    if (stream.file) let_go(stream);
  }
}

// Whoever else has the other end, in a session of its own, is not to die of our having closed this one. Each is a descriptor,
// which tasks need: beyond some of them the oldest is closed.
void EpollPool::let_go(Stream& stream) {
  if (!may_others_write()) return forget(stream.file);
  const int fd = stream.file.get();
  unwatch(fd);
  listen(fd, Source::unheard, static_cast<std::size_t>(fd));
  unheard_.push_back(std::move(stream.file));
  if (unheard_.size() <= most_unheard_) return;
  forget(unheard_.front());
  unheard_.pop_front();
}

void EpollPool::drop_unheard(int fd) {
  std::array<char, pipe_room> bytes;
  const ssize_t n = ::read(fd, bytes.data(), bytes.size());
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  const auto at = std::ranges::find(unheard_, fd, [](const Fd& one) { return one.get(); });
  if (at == unheard_.end()) return;
  forget(*at);
  unheard_.erase(at);
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

bool EpollPool::is_command(pid_t child) const {
  return std::ranges::any_of(bays_, [child](const auto& bay) { return bay && bay->pid == child; });
}

// Of the groups of all bays; the commands are among them.
std::vector<ProcessStat> EpollPool::members() const {
  std::vector<pid_t> groups;
  for (const auto& bay : bays_)
    if (bay && bay->pid > 0) groups.push_back(bay->pid);
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
    for (const auto& bay : bays_)
      if (bay && bay->pid > 0) commands.push_back(bay->pid);
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
  for (const auto& bay : bays_)
    if (bay && bay->pid > 0) signal_command(bay->pid, SIGSTOP);
  if (!stop_self(SIGTSTP)) ::raise(SIGSTOP);   // without a shell above it TSTP stops nobody
  for (const auto& bay : bays_)
    if (bay && bay->pid > 0) signal_command(bay->pid, SIGCONT);
}

}  // namespace thole::host
