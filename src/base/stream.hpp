// Descriptors that somebody else writes to: reading to the end, and how long to wait for more.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.hpp"

namespace thole {

// All that comes until the end of the file or pipe, at most `limit` bytes; nothing when it cannot be read (errno is set).
std::optional<std::string> read_all(int fd, std::size_t limit);

// The same, waited for where the descriptor does not block: others who have it may have made it so.
std::optional<std::string> await_all(int fd, std::size_t limit);

// After a call on it that failed: whether it is to be made again. That is waited for (`events` as poll(2) takes them).
bool again_when(int fd, short events);

// Takes what there is out of a descriptor that does not block; false when there was nothing. At most 64 KiB: who writes without
// end keeps nobody here. What is left makes the descriptor readable again.
bool drain(int fd);

// Whether a read would not have to wait: there is something, or the end.
bool is_readable(int fd);
// The same, waited for: until then, or as long as it takes. Of a pidfd: whether the process has ended.
bool is_readable_by(int fd, std::optional<SteadyTime> deadline);

// Sleeps until one of them is readable or at its end, or the deadline; which of them are: none, too, after a signal. -1 stands
// for none. Nothing at all where nobody can wait (errno is set).
std::optional<std::vector<bool>> wait_for(std::span<const int> fds, std::optional<SteadyTime> deadline, SteadyTime now);

// Whether one of them is readable, or at its end, within the time.
bool any_ready(std::span<const int> fds, Millis wait);

// One read, again after a signal; nothing where it failed (errno is set).
std::optional<std::size_t> read_some(int fd, char* to, std::size_t most);

// The beginning of a file, so many bytes, or all of it where it is shorter; nothing where some cannot be read (errno is set).
std::optional<std::string> read_beginning(int file, std::size_t size);

// Whether reading may have to wait for somebody: of a pipe, a terminal or a socket.
bool may_wait(int fd);
bool is_terminal(int fd);

// What poll(2) and epoll_wait(2) take to sleep until `deadline`: whole milliseconds, rounded up so as not to wake too early;
// -1 without one, 0 when it has passed. One that is weeks away is cut short to what they can take.
int poll_timeout(std::optional<SteadyTime> deadline, SteadyTime now);

}  // namespace thole
