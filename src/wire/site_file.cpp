#include "wire/site_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/text.hpp"
#include "wire/toml.hpp"

namespace thole::wire {

namespace {

constexpr std::string_view group_key = "state.group";

std::string line_of(const std::string& group) { return fmt::format("group = \"{}\"", group); }

std::string group_in(const std::string& text, const std::string& path, unsigned* line = nullptr) {
  for (const TomlEntry& entry : read_toml(text, path)) {
    if (entry.key != group_key || entry.values.empty()) continue;
    if (line) *line = entry.line;
    return entry.values.front();
  }
  return "";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::string_view line : split(text, '\n')) lines.emplace_back(line);
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// With the table that it alone was in, and the empty line that was put before that.
void erase_group(std::vector<std::string>& lines, std::size_t at) {
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
  const bool last = at == lines.size() || trim(lines[at]).starts_with('[');
  if (!last || at == 0 || trim(lines[at - 1]) != "[state]") return;
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(--at));
  if (at == lines.size() && at > 0 && trim(lines[at - 1]).empty()) lines.pop_back();
}

}  // namespace

std::string state_group_line(const std::string& group) {
  return group.empty() ? "take `group` out of its [state]" : fmt::format("it should say [state] {}", line_of(group));
}

std::string with_state_group(const std::string& text, const std::string& group, const std::string& path) {
  unsigned line = 0;
  const std::string before = group_in(text, path, &line);
  if (before == group) return text;
  std::vector<std::string> lines = lines_of(text);
  if (line > 0 && line <= lines.size()) {
    const auto at = lines.begin() + (line - 1);
    const bool dotted = trim(*at).starts_with("state");
    if (group.empty()) erase_group(lines, static_cast<std::size_t>(at - lines.begin()));
    else *at = (dotted ? "state." : "") + line_of(group);
  } else if (!group.empty()) {
    auto table = std::find_if(lines.begin(), lines.end(), [](const std::string& l) { return trim(l) == "[state]"; });
    if (table == lines.end()) {
      if (!lines.empty()) lines.emplace_back();
      table = lines.insert(lines.end(), "[state]");
    }
    lines.insert(table + 1, line_of(group));
  }
  const std::string result = lines.empty() ? "" : join(lines, "\n") + "\n";
  // A line with more than this key, or one of another form: rather nothing than something else.
  bool right = false;
  try {
    std::vector<TomlEntry> was = read_toml(text, path), is = read_toml(result, path);
    const auto others = [](std::vector<TomlEntry>& entries) {
      std::erase_if(entries, [](const TomlEntry& entry) { return entry.key == group_key; });
      std::vector<std::pair<std::string, std::vector<std::string>>> pairs;
      for (const TomlEntry& entry : entries) pairs.emplace_back(entry.key, entry.values);
      return pairs;
    };
    right = group_in(result, path) == group && others(was) == others(is);
  } catch (const Error&) {
  }
  if (!right) throw Error(ErrorCode::unavailable, "cannot change [state] in this file").about(path);
  return result;
}

void write_state_group(const std::string& path, const std::string& group) {
  const auto text = read_file(path);
  if (!text && errno != ENOENT && errno != ENOTDIR)
    throw Error(ErrorCode::unavailable, "cannot read").about(path).because(errno);
  const std::string before = text.value_or("");
  const std::string after = with_state_group(before, group, path);
  if (after == before) return;
  const std::string folder = path.substr(0, path.rfind('/'));
  if (make_directory(folder, 0755)) (void)!::chmod(folder.c_str(), 0755);   // whatever the umask
  struct stat found;
  const mode_t mode = ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0644;
  write_file(path, after, mode);
  (void)!::chmod(path.c_str(), mode);
}

}  // namespace thole::wire
