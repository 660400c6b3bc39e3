#include "host/claims/membership.hpp"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

namespace {

// Whether the users' lists know him. `unknown`: they cannot be read now.
enum class Account { there, none, unknown };

Account account_of(uid_t uid, passwd& entry, std::vector<char>& buffer) {
  passwd* found = nullptr;
  const int why = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  if (found) return Account::there;
  return why == ERANGE || why == EAGAIN || says_nothing(why) ? Account::unknown : Account::none;
}

}  // namespace

bool is_member(uid_t uid, gid_t group) {
  if (uid == 0) return true;
  passwd entry{};
  std::vector<char> buffer(1 << 16);
  const Account account = account_of(uid, entry, buffer);
  if (account != Account::there) return account == Account::unknown;   // nobody is shut out for what nobody could read
  std::vector<gid_t> groups(1024);
  int count = static_cast<int>(groups.size());
  if (::getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count) < 0) return true;   // in more than anybody can be told
  groups.resize(static_cast<std::size_t>(count));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

bool has_account(uid_t uid) {
  passwd entry{};
  std::vector<char> buffer(1 << 16);
  return account_of(uid, entry, buffer) != Account::none;
}

bool process_is_member(pid_t pid, gid_t group) {
  const std::optional<std::string> told = read_file("/proc/" + std::to_string(pid) + "/status");
  if (!told && says_nothing(errno)) return true;
  const std::string status = told.value_or("");
  for (std::string_view line : split_lines(status)) {
    if (!line.starts_with("Gid:") && !line.starts_with("Groups:")) continue;
    std::string numbers(line.substr(line.find(':') + 1));
    std::replace(numbers.begin(), numbers.end(), '\t', ' ');
    for (std::string_view number : split(numbers, ' '))
      if (parse_u64(number) == group) return true;
  }
  const auto user = user_ids_of(pid);
  return user && is_member(user->real, group);
}

}  // namespace thole::host
