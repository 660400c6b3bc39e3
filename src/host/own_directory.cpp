#include "host/own_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/random.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/path.hpp"
#include "host/user_name.hpp"

namespace thole::host {

namespace {

constexpr const char* settled = "settled";
constexpr int most_attempts = 400;
constexpr std::size_t digits = 8;
constexpr std::size_t names_for_one_asked = 1024;   // whose they are is told by a sample
constexpr std::size_t a_crowd_of_names = 200'000;   // a tenth of a second

std::function<void(const std::string&)> told_of_crowds;
// Of a thread: what all shared would need a lock, which a child could find taken.
thread_local std::map<std::string, std::string> crowds;            // what was told of them, by where
thread_local std::map<std::string, std::string> found_by_number;   // the settled one that was found last, by its path without

std::string plain_name(uid_t uid) { return fmt::format("thole-{}", uid); }

// A passing trouble is no answer: for it a second directory would be made beside the first.
void refuse_unknown(const std::string& path, int why) {
  if (!says_absent(why) && why != EACCES)
    throw Error(ErrorCode::unavailable, "cannot see whether your directory is there").about(path).because(why);
}

using Listing = std::unique_ptr<DIR, int (*)(DIR*)>;

// None where it is not there, or not to be listed.
Listing list(const std::string& path) {
  Fd fd = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY);
  Listing listing(fd ? ::fdopendir(fd.get()) : nullptr, &::closedir);
  if (listing) static_cast<void>(fd.release());
  else refuse_unknown(path, errno);
  return listing;
}

const dirent* next_of(const Listing& listing, const std::string& path) {
  const dirent* entry = nullptr;
  do {
    errno = 0;
    entry = ::readdir(listing.get());
  } while (entry && (std::string_view(entry->d_name) == "." || std::string_view(entry->d_name) == ".."));
  if (!entry && errno != 0) refuse_unknown(path, errno);
  return entry;
}

bool is_empty(const std::string& path) {
  const Listing listing = list(path);
  return !listing || !next_of(listing, path);
}

// Of a directory of this user. One look: a moment later it may be somebody else's.
std::optional<mode_t> mode_of_own(const std::string& path, uid_t uid) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0) {
    refuse_unknown(path, errno);
    return std::nullopt;
  }
  return S_ISDIR(found.st_mode) && found.st_uid == uid ? std::optional(found.st_mode) : std::nullopt;
}

bool belongs_to(const std::string& path, uid_t uid, mode_t forbidden) {
  const auto mode = mode_of_own(path, uid);
  return mode && (*mode & forbidden) == 0;
}

bool is_settled(const std::string& path) {
  return ::faccessat(AT_FDCWD, (path + "/" + settled).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0 || !is_empty(path);
}

// "thole-1000" of "thole-1000-0123abcd"; "" of what has no such number.
std::string_view before_number(std::string_view name) {
  if (name.size() <= digits || name[name.size() - digits - 1] != '-' ||
      name.find_first_not_of("0123456789abcdef", name.size() - digits) != std::string_view::npos)
    return "";
  return name.substr(0, name.size() - digits - 1);
}

// Of a list of names, whose they are: anybody can make some in /tmp.
class Names {
 public:
  bool asks_for_next() { return ++all_ % names_for_one_asked == 0; }
  void add(uid_t owner) { ++asked_[owner]; }

  void tell_of_crowd(const std::string& base) const {
    if (all_ < a_crowd_of_names || asked_.empty()) return;
    const auto most = std::ranges::max_element(asked_, {}, [](const auto& owner) { return owner.second; });
    const auto [crowd, is_new] = crowds.try_emplace(base);
    crowd->second = fmt::format("{0} has {1} names, most of them {2}'s, and each command of yours reads them all; {2} or root "
                                "can delete those like thole's: find {0} -maxdepth 1 -uid {3} -name 'thole-*' "
                                "-exec rm -r {{}} +",
                                base, all_, printable(user_name(most->first), 32), most->first);
    if (is_new && told_of_crowds) told_of_crowds(crowd->second);
  }

 private:
  std::size_t all_ = 0;
  std::map<uid_t, std::size_t> asked_;           // how many of those that were asked for
};

// Those with a number behind that are this user's, sorted. Others can have made any number of such names: of what is no
// directory nothing is asked.
std::vector<std::string> numbered(const std::string& base, uid_t uid) {
  std::vector<std::string> paths;
  const Listing listing = list(base);
  if (!listing) return paths;
  const std::string plain = plain_name(uid);
  Names names;
  while (const dirent* entry = next_of(listing, base)) {
    const bool asks = names.asks_for_next();
    const bool may_be_his =
        (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && before_number(entry->d_name) == plain;
    if (!asks && !may_be_his) continue;
    const std::string path = base + "/" + entry->d_name;
    struct stat found;
    if (::fstatat(::dirfd(listing.get()), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
      if (may_be_his) refuse_unknown(path, errno);
      continue;
    }
    if (asks) names.add(found.st_uid);
    if (may_be_his && S_ISDIR(found.st_mode) && found.st_uid == uid) paths.push_back(path);
  }
  names.tell_of_crowd(base);
  std::ranges::sort(paths);
  return paths;
}

// Two makers that saw each other do not do so for ever.
void pause_a_little() {
  const timespec pause{0, static_cast<long>(1'000'000 + random_bits() % 9'000'000)};
  ::nanosleep(&pause, nullptr);
}

void refuse_open_to_others(const std::string& path) {
  throw Error(ErrorCode::unavailable, "others can look into your directory").about(path).hint("chmod 700 " + shell_quote(path));
}

struct Look {
  std::optional<std::string> settled{};
  std::set<std::string> unsettled{};             // where none is settled: those that are this user's alone
};

// One that was found by its number is seen first the next time. It is settled still, so it is the only one; and who makes the
// list of names long costs a command one look.
Look look_for(const std::string& base, uid_t uid) {
  Look look;
  const std::string plain = base + "/" + plain_name(uid);
  const auto is_it = [&](const std::string& path) {
    const auto mode = mode_of_own(path, uid);
    if (!mode) return false;
    const bool is_open = (*mode & 077) != 0;
    if (is_settled(path)) look.settled = path;
    else if (!is_open) look.unsettled.insert(path);
    if (is_open && (look.settled || path == plain)) refuse_open_to_others(path);
    return look.settled.has_value();
  };
  if (is_it(plain)) return look;
  std::string& before = found_by_number[plain];
  if (!before.empty() && is_it(before)) return look;
  for (const std::string& path : numbered(base, uid))
    if (is_it(path)) {
      before = path;
      break;
    }
  return look;
}

// What cannot be listed may have one of ours, of a name that we do not know.
void refuse_unlisted(const std::string& base, const std::string& hint) {
  if (!open_at(AT_FDCWD, base.c_str(), O_RDONLY | O_DIRECTORY) && errno == EACCES)
    throw Error(ErrorCode::unavailable, "cannot see whether your directory is there").about(base).because(EACCES).hint(hint);
}

// Makes an empty one; "" when another process of this user is about to.
std::string make_one(const std::string& base, uid_t uid, const std::string& hint) {
  std::string path = base + "/" + plain_name(uid);
  if (make_directory(path, 0700)) return path;
  if (errno == EEXIST) {
    if (belongs_to(path, uid, 0)) return "";
    refuse_unlisted(base, hint);
    path += fmt::format("-{:08x}", static_cast<std::uint32_t>(random_bits()));
    if (make_directory(path, 0700)) return path;
    if (errno == EEXIST) return "";
  }
  throw Error(ErrorCode::unavailable, "cannot make your directory").about(path).because(errno).hint(hint);
}

Fd lock(const std::string& path) {
  Fd fd = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

// One that its user cannot open himself (an odd umask, or a chmod) cannot be locked either: that one is no maker's for long.
void remove_those_of_dead_makers(const std::set<std::string>& unsettled) {
  for (const std::string& path : unsettled) {
    const Fd held = lock(path);
    const bool closed = !held && errno == EACCES;
    if (!held && !closed) continue;
    const bool removed = ::rmdir(path.c_str()) == 0;   // one that has been settled meanwhile is not empty
    if (!removed && closed && errno == ENOTEMPTY)
      throw Error(ErrorCode::unavailable, "you cannot look into your own directory").about(path).hint(
          "chmod 700 " + shell_quote(path));
  }
}

// Ours, locked: the one of this user if there is no other.
bool settle(const std::string& path, const Fd& held, const std::string& base, uid_t uid) {
  if (own_directories(base, uid) != std::vector<std::string>{path}) {
    ::rmdir(path.c_str());
    return false;
  }
  return static_cast<bool>(create_at(held.get(), settled, O_WRONLY | O_EXCL | O_NOFOLLOW, 0600));
}

}  // namespace

std::string without_number(const std::string& path) {
  constexpr std::string_view start = "thole-";
  const std::string_view all = path, plain = before_number(all.substr(all.rfind('/') + 1));
  if (plain.size() <= start.size() || !plain.starts_with(start) ||
      plain.find_first_not_of("0123456789", start.size()) != std::string_view::npos)
    return path;
  return path.substr(0, path.size() - digits - 1);
}

void when_names_are_a_crowd(std::function<void(const std::string&)> tell) { told_of_crowds = std::move(tell); }

std::vector<std::string> crowds_of_names() {
  std::vector<std::string> all;
  for (const auto& [base, text] : crowds) all.push_back(text);
  return all;
}

std::optional<std::string> base_of_own_directory(const std::string& path, uid_t uid) {
  if (without_number(path).substr(path.rfind('/') + 1) != plain_name(uid)) return std::nullopt;
  return parent_of(path);
}

std::vector<std::string> own_directories(const std::string& base, uid_t uid) {
  std::vector<std::string> paths = numbered(base, uid);
  paths.insert(paths.begin(), base + "/" + plain_name(uid));
  std::erase_if(paths, [&](const std::string& path) { return !belongs_to(path, uid, 077); });
  return paths;
}

std::optional<std::string> find_own_directory(const std::string& base, uid_t uid) { return look_for(base, uid).settled; }

ExpectedDirectory expected_own_directory(const std::string& base, uid_t uid, const std::string& hint) {
  if (auto there = find_own_directory(base, uid)) return {*there, ""};
  const std::string plain = base + "/" + plain_name(uid);
  struct stat found;
  const bool is_free = ::lstat(plain.c_str(), &found) != 0 && says_absent(errno);
  if (is_free || belongs_to(plain, uid, 0)) return {plain, ""};
  refuse_unlisted(base, hint);
  return {plain + "-" + std::string(digits, 'X'), plain};
}

std::string open_own_directory(const std::string& base, const std::string& hint) {
  const uid_t uid = ::geteuid();
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const Look look = look_for(base, uid);
    if (look.settled) return *look.settled;
    remove_those_of_dead_makers(look.unsettled);
    const std::string path = make_one(base, uid, hint);
    if (const Fd held = path.empty() ? Fd() : lock(path); held && settle(path, held, base, uid))
      return found_by_number[base + "/" + plain_name(uid)] = path;
    pause_a_little();
  }
  throw Error(ErrorCode::unavailable, "your directory is being made and never finished")
      .about(base + "/" + plain_name(uid))
      .hint("a stopped program of yours may be at it: see `ps -u " + std::to_string(uid) + " -o pid,stat,args`");
}

std::string open_named_directory(const std::string& path, const std::string& hint) {
  if (!make_directory(path, 0700) && errno != EEXIST)
    throw Error(ErrorCode::unavailable, "cannot make the directory").about(path).because(errno).hint(hint);
  if (!belongs_to(path, ::geteuid(), 0))
    throw Error(ErrorCode::unavailable, "this is not a directory of yours").about(path).hint(hint);
  if (!belongs_to(path, ::geteuid(), 077)) refuse_open_to_others(path);
  return path;
}

}  // namespace thole::host
