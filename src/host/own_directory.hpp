// A user's own directory where everybody may make directories (/tmp, /var/tmp): BASE/thole-UID, or BASE/thole-UID-<8 hex>.
//
// How this works. Anybody can make the first name before its user does; then it is a foreign directory and counts for nothing,
// and the user makes one with a name that cannot be guessed. All processes of a user must work in one directory, whatever their
// environment says and whenever strangers make or remove names. So a directory is first made and then settled:
//   * one with anything in it is settled, and whoever looks takes it;
//   * whoever makes one locks it and lists again. Alone, he puts the file `settled` into it; beside another of this user he
//     removes his own and looks again. Of two makers at least one sees the other, so only one directory is ever settled;
//   * an empty one that nobody has locked was left by a dead maker and is removed;
//   * where the names cannot be listed, or one is open to others, none is made beside what may be there.
// One that is deleted or moved under living claims is followed by another, of whatever name: what keeps their GPUs then is the
// guard of what was in it, which is the same for all of a user's directories (claims/guard.hpp).
// Nobody else can open these directories (0700), so nobody else can hold their locks.
// Where the first name is foreign the names have to be listed, and who took it can make that list long. One look of half a
// microsecond a name is what that costs a command: from then on it sees the one that it found first. Whose a crowd is, is told.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace thole::host {

inline constexpr const char* name_another = "name a directory of your own: THOLE_PERSONAL_DIR";

// BASE/thole-UID for each of the names that it may have; any other path as it is. By its text.
std::string without_number(const std::string& path);

// BASE, where this is the path of such a directory of this user.
std::optional<std::string> base_of_own_directory(const std::string& path, uid_t uid);

// Told once for each place with so many names that the look is slow: whose they are, and how to be rid of them. And all that
// was told in this thread.
void when_names_are_a_crowd(std::function<void(const std::string&)> tell);
std::vector<std::string> crowds_of_names();

// Every directory of this name that belongs to the user alone, the settled one among them.
std::vector<std::string> own_directories(const std::string& base, uid_t uid);

// The settled one, for looking; nothing where there is none. Throws Error(unavailable) when it is open to others.
std::optional<std::string> find_own_directory(const std::string& base, uid_t uid);

// The same, or where open_own_directory would make it now. Makes nothing; throws as that does.
struct ExpectedDirectory {
  std::string path;                              // one that has yet to draw its number has XXXXXXXX there
  std::string taken;                             // then: the name that somebody else has; else ""
};
ExpectedDirectory expected_own_directory(const std::string& base, uid_t uid, const std::string& hint);

// The same of the caller, made where there is none. `hint` is the advice where none can be made.
std::string open_own_directory(const std::string& base, const std::string& hint);

// A directory that its user named: made where there is none, and his alone.
std::string open_named_directory(const std::string& path, const std::string& hint);

}  // namespace thole::host
