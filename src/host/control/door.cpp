#include "host/control/door.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/printable_lines.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/claims/inner.hpp"
#include "host/control/message.hpp"

namespace thole::host {
namespace {

constexpr std::size_t longest_request = 256;
constexpr std::size_t most_clients = 16;   // the oldest that never asked anything makes room

[[noreturn]] void cannot_open(const std::string& path, int reason) {
  throw Error(ErrorCode::unavailable, "cannot open the claim's socket").about(path).because(reason).hint(mend_of_want(reason));
}

void must_be_ours(int directory, const std::string& path, mode_t forbidden) {
  struct stat about;
  if (::fstat(directory, &about) != 0) cannot_open(path, errno);
  if (about.st_uid != ::geteuid() && ::geteuid() != 0)
    throw Error(ErrorCode::unavailable, "a claim's directory belongs to somebody else").about(path);
  if ((about.st_mode & forbidden) != 0)
    throw Error(ErrorCode::unavailable, "a claim's directory is open to others")
        .about(path)
        .hint("chmod go-rwx " + shell_quote(path));
}

void watch(int epoll, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

bool may_ask(int client) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

void say(int client, const std::string& line) { ::send(client, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT); }

std::string time_word(const std::optional<WallTime>& when) {
  return when ? std::to_string(when->time_since_epoch().count()) : "never";
}

// Who wanted a new end has been told that nobody answers: a keeper that stood still (Ctrl-Z) finds it when that end may be long
// past. (What was to be released is released then.)
bool has_gone(int client) {
  pollfd watched{client, 0, 0};
  return ::poll(&watched, 1, 0) > 0 && (watched.revents & POLLHUP) != 0;
}

std::string ending_line(const std::optional<port::Ending>& ending) {
  if (!ending) return "ok none\n";
  const auto now = std::chrono::steady_clock::now();
  const std::string left = ending->killed ? std::to_string(poll_timeout(ending->killed, now)) : "never";
  return fmt::format("ok {} {} {}\n", ending->pid, left, printable(ending->name));
}

}  // namespace

// Both the directory and the one it lies in (/tmp/thole-1000 could have been made by anybody) must be ours.
Fd open_claim_directory(const std::string& path, bool make) {
  const auto slash = path.rfind('/');
  const std::string parent_path = slash == std::string::npos ? "." : path.substr(0, slash);
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (make) make_directory(parent_path, 0700);
  Fd parent = open_at(AT_FDCWD, parent_path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!parent) cannot_open(parent_path, errno);
  must_be_ours(parent.get(), parent_path, 022);
  Fd directory;
  do {   // again where a sweep has taken it before it was opened
    if (make && !make_directory_at(parent.get(), name.c_str(), 0700) && errno != EEXIST) cannot_open(path, errno);
    directory = open_at(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } while (!directory && errno == ENOENT && make);
  if (!directory) cannot_open(path, errno);
  must_be_ours(directory.get(), path, 077);
  struct stat inner, around;
  if (::fstat(directory.get(), &inner) != 0 || ::fstat(parent.get(), &around) != 0) cannot_open(path, errno);
  if (inner.st_uid != around.st_uid)   // root may look into others'
    throw Error(ErrorCode::unavailable, "a claim's directory lies in somebody else's").about(path);
  return directory;
}

Door::Door(port::DoorSpec spec) : spec_(std::move(spec)) {
  do directory_ = open_claim_directory(spec_.directory, true);
  while (!lock_as_keeper(directory_.get()));
  listener_ = Fd(above_standard(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  ready_ = Fd(above_standard(::epoll_create1(EPOLL_CLOEXEC)));
  if (!listener_ || !ready_) cannot_open(spec_.directory, errno);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // By way of the descriptor: no path is too long, and none is looked up twice.
  const std::string path = fmt::format("/proc/self/fd/{}/control", directory_.get());
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  // A claim's id is random: what lies here already is the socket of a keeper that was killed.
  ::unlinkat(directory_.get(), "control", 0);
  if (::bind(listener_.get(), where, sizeof address) != 0 ||
      !give_owners_bits(directory_.get(), "control", 0600) || ::listen(listener_.get(), 16) != 0)
    cannot_open(spec_.directory, errno);
  watch(ready_.get(), listener_.get());
}

Door::~Door() {
  ::unlinkat(directory_.get(), "control", 0);
  // Not under who makes it that of a claim inside this moment: he has it locked, too.
  const bool in_use = ::flock(directory_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool removed = !in_use && ::rmdir(spec_.directory.c_str()) == 0;
  directory_ = Fd();
  try {
    if (!removed && over_) remove_inner_directory(spec_.directory);  // claims were made inside
    if (!over_ || !spec_.lives) return;
    sweep_unmarked(spec_.directory.substr(0, spec_.directory.rfind('/')), spec_.lives);
  } catch (const Error&) {  // claims cannot be read now: the next one sweeps
  }
}

port::Order Door::serve() {
  port::Order order;
  accept_clients();
  std::erase_if(clients_, [&](Client& client) { return !read_from(client, order); });
  return order;
}

void Door::accept_clients() {
  for (;;) {
    Fd client(above_standard(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    if (!client) return;
    if (!may_ask(client.get())) { say(client.get(), "no this claim belongs to another user\n"); continue; }
    if (clients_.size() >= most_clients) {
      auto idle = std::ranges::find(clients_, false, &Client::waits_for_release);
      if (idle == clients_.end()) { say(client.get(), "no too many requests\n"); continue; }
      clients_.erase(idle);
    }
    watch(ready_.get(), client.get());
    clients_.push_back({std::move(client), "", false});
  }
}

// One read a round: the descriptor stays ready while there is more, and a client that writes without end delays nobody.
bool Door::read_from(Client& client, port::Order& order) {
  char buffer[longest_request];
  const ssize_t n = ::recv(client.fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  if (client.waits_for_release) return true;
  client.line.append(buffer, static_cast<std::size_t>(n));
  if (client.line.find('\n') != std::string::npos) return answer(client, order);
  if (client.line.size() <= longest_request) return true;
  say(client.fd.get(), "no the line is too long\n");
  return false;
}

bool Door::answer(Client& client, port::Order& order) {
  const std::string line = client.line.substr(0, client.line.find('\n'));
  const auto& about = spec_.about;
  if (line == "describe") {
    say(client.fd.get(), fmt::format("ok id={} pid={} kind={} until={}\n", about.id, about.pid, about.holder ? "claim" : "run",
                                     time_word(about.until)));
  } else if (line == "ending") {
    say(client.fd.get(), ending_line(ending_));
  } else if (line == "release") {
    order.end = client.waits_for_release = true;
    return true;
  } else if (line == "descriptors") {
    hand_out_locks(client);
  } else if (line.starts_with("extend ")) {
    if (!has_gone(client.fd.get())) say(client.fd.get(), extend(std::string_view(line).substr(7), order));
  } else {
    say(client.fd.get(), "no unknown request\n");
  }
  return false;
}

std::string Door::extend(std::string_view argument, port::Order& order) {
  const auto ms = parse_u64(argument);
  if (!ms || *ms > 99'999'999'999'999) return "no that is not a time\n";
  const WallTime until{Millis(static_cast<std::int64_t>(*ms))};
  if (spec_.is_ending && spec_.is_ending()) return "no its command is being ended already\n";
  const auto before = std::exchange(spec_.about.until, until);   // who amends may make it a later one (ends_at)
  const auto refused = [&](const std::string& why) {
    spec_.about.until = before;
    return "no " + why + "\n";
  };
  try {
    if (spec_.amend && !spec_.amend(until)) return refused("the new end cannot be recorded");
  } catch (const Error& error) {
    return refused(printable(in_one_line(error.full())));
  }
  order.until = until;
  return "ok until=" + time_word(until) + "\n";
}

void Door::hand_out_locks(Client& client) {
  if (spec_.locks.size() > most_descriptors) return say(client.fd.get(), "no too many descriptors for one message\n");
  send_message(client.fd.get(), fmt::format("ok {}\n", spec_.locks.size()), spec_.locks);
}

void Door::let_go() {
  over_ = true;
  spec_.locks.clear();
  for (auto& client : clients_)
    if (client.waits_for_release) say(client.fd.get(), "ok released\n");
  clients_.clear();
}

}  // namespace thole::host
