#include "host/sysfs/tree.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

constexpr std::size_t attribute_limit = 1u << 20;  // no attribute read here is longer

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::string prefix_of(std::string root) {
  while (!root.empty() && root.back() == '/') root.pop_back();
  return root;
}

}  // namespace

Tree::Tree(std::string root) : root_(prefix_of(std::move(root))) {}

bool Tree::exists(std::string_view path) const { return ::access(at(path).c_str(), F_OK) == 0; }

bool Tree::readable_and_writable(std::string_view path) const { return ::access(at(path).c_str(), R_OK | W_OK) == 0; }

std::optional<std::string> Tree::text(std::string_view path) const {
  auto bytes = read_file(at(path), attribute_limit);
  if (!bytes) return std::nullopt;
  return std::string(trim(*bytes));
}

std::optional<std::uint64_t> Tree::number(std::string_view path) const {
  auto bytes = text(path);
  return bytes ? parse_u64(*bytes) : std::nullopt;
}

std::optional<std::uint64_t> Tree::hex(std::string_view path) const {
  auto bytes = text(path);
  if (!bytes) return std::nullopt;
  std::string_view digits = *bytes;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  return parse_u64(digits, 16);
}

std::optional<int> Tree::node(std::string_view path) const {
  auto value = number(path);  // "-1", the kernel's "unknown", is no number here
  if (!value || *value > static_cast<std::uint64_t>(INT_MAX)) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<model::CpuSet> Tree::cpu_list(std::string_view path) const {
  auto bytes = text(path);
  return bytes ? model::CpuSet::parse(*bytes) : std::nullopt;
}

std::optional<model::CpuSet> Tree::cpu_mask(std::string_view path) const {
  auto bytes = text(path);
  return bytes ? parse_cpu_mask(*bytes) : std::nullopt;
}

std::vector<std::string> Tree::names(std::string_view directory) const {
  std::vector<std::string> found;
  std::unique_ptr<DIR, CloseDirectory> open(::opendir(at(directory).c_str()));
  if (!open) return found;
  while (const dirent* entry = ::readdir(open.get())) {
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") found.emplace_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<unsigned> Tree::numbered(std::string_view directory, std::string_view prefix) const {
  std::vector<unsigned> found;
  for (const std::string& name : names(directory)) {
    if (!name.starts_with(prefix)) continue;
    auto number = parse_u64(std::string_view(name).substr(prefix.size()));
    if (number && *number <= UINT_MAX) found.push_back(static_cast<unsigned>(*number));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<std::string> Tree::real(std::string_view path) const {
  char resolved[PATH_MAX], resolved_root[PATH_MAX];
  if (!::realpath(at(path).c_str(), resolved)) return std::nullopt;
  if (root_.empty()) return std::string(resolved);
  if (!::realpath(root_.c_str(), resolved_root)) return std::nullopt;
  std::string_view inside = resolved, root = resolved_root;
  if (!inside.starts_with(root) || inside.size() <= root.size() || inside[root.size()] != '/') return std::nullopt;
  return std::string(inside.substr(root.size()));
}

std::optional<std::string_view> field(std::string_view text, std::string_view key) {
  for (std::string_view line : split_lines(text)) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = line.substr(key.size());
    if (rest.starts_with(':')) return trim(rest.substr(1));
    if (rest.starts_with(' ') || rest.starts_with('\t')) return trim(rest);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_field(std::string_view text, std::string_view key) {
  auto value = field(text, key);
  return value ? parse_u64(*value) : std::nullopt;
}

bool in_pid_namespace(const Tree& tree) {
  constexpr std::string_view initial = "pid:[4026531836]";  // PROC_PID_INIT_INO, fixed in the kernel's ABI
  const std::string own = read_link(tree.at("/proc/self/ns/pid"));
  return !own.empty() && own != initial;
}

std::optional<model::CpuSet> parse_cpu_mask(std::string_view mask) {
  constexpr unsigned bits_per_word = 32, most_words = 1024;  // more CPUs than any kernel is built for
  auto words = split(mask, ',');
  if (words.size() > most_words) return std::nullopt;
  model::CpuSet cpus;
  unsigned base = 0;
  for (auto word = words.rbegin(); word != words.rend(); ++word, base += bits_per_word) {
    auto bits = parse_u64(*word, 16);
    if (!bits || *bits > UINT32_MAX) return std::nullopt;
    for (unsigned bit = 0; bit < bits_per_word; ++bit)
      if ((*bits >> bit) & 1) cpus.add(base + bit);
  }
  return cpus;
}

}  // namespace thole::host
