// Files in notes/ that only their owner can write to and lock: what he says there is his word, while he lives (notes.hpp: of
// his claims; own_tickets.hpp: of what he waits for). They are named `<uid>-<8 hex>`, those of tickets with `-line` behind it,
// have mode 01644, and are kept between claims.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace thole::host {

enum class Saying { claims, tickets };

inline constexpr int only_look = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
inline constexpr int to_write = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
inline constexpr mode_t open_to_readers = 01644;   // sticky: what ages files in /tmp leaves them
inline constexpr unsigned files_of_a_stranger = 16;   // that say something: one is usual; more where somebody read-locks them
inline constexpr std::size_t names_tried = 64;     // for a file of mine: anybody can make files of such names

// Nobody else can write to it or set its locks. In a user namespace everybody from outside is shown as one user.
bool is_file_of(const struct stat& file, uid_t uid);

std::vector<std::string> names_in(int directory, Saying what, std::size_t most = SIZE_MAX);
std::vector<std::string> names_of(int directory, uid_t uid, Saying what);

// Those that say something and belong to such users, by owner, each file once: anybody can give his files names of another's.
std::map<uid_t, std::vector<std::string>> names_by_owner(int directory, Saying what, const std::function<bool(uid_t)>& of);

// OFD locks. A reader asks for a READ lock: that takes nothing and sees write locks only, which need a descriptor that can
// write. Throws where nobody can tell (refuse_unseen): nobody takes what lives for ended.
bool lock(int fd, off_t byte);
bool write_lock_in(int fd, off_t from, off_t to, struct flock& found);   // the first one of another description
bool write_locked(int fd, off_t byte);

// A new file of this user: `fill` writes and locks it before anybody else can open it, so nobody can hinder that. Empty, with
// errno set, when it cannot be; `name` is its name else.
Fd new_own_file(int directory, uid_t uid, Saying what, std::string& name,
                const std::function<Fd(const std::string& name, Fd)>& fill);

// Files that somebody's read locks made useless would pile up: those of this user that `is_mine` says were made by thole go,
// but for those in which he says something.
void remove_idle(int directory, const std::vector<std::string>& names, const std::function<bool(int fd)>& is_mine);

}  // namespace thole::host
