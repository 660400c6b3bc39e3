#include "base/soft_limits.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "base/text.hpp"

namespace thole {

namespace {

constexpr SoftLimit limits_by_name[] = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},     {"cpu", RLIMIT_CPU},       {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},     {"locks", RLIMIT_LOCKS},   {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE},
    {"nice", RLIMIT_NICE},       {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC},   {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME}, {"sigpending", RLIMIT_SIGPENDING}, {"stack", RLIMIT_STACK},
};

void set_one(int resource, rlim_t wanted) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(resource, &limit);
}

}  // namespace

std::vector<SoftLimit> soft_limits() {
  std::vector<SoftLimit> all(std::begin(limits_by_name), std::end(limits_by_name));
  for (SoftLimit& limit : all) {
    rlimit now{RLIM_INFINITY, RLIM_INFINITY};
    ::getrlimit(limit.resource, &now);
    limit.value = now.rlim_cur;
  }
  return all;
}

std::vector<std::string> as_words(std::span<const SoftLimit> limits) {
  std::vector<std::string> words;
  for (const SoftLimit& limit : limits)
    if (limit.value != RLIM_INFINITY) words.push_back(fmt::format("{}={}", limit.name, limit.value));
  return words;
}

std::vector<SoftLimit> limits_of(std::span<const std::string> words) {
  std::vector<SoftLimit> limits;
  for (const std::string& word : words) {
    const std::size_t end = std::min(word.find('='), word.size());
    const auto found = std::ranges::find(limits_by_name, std::string_view(word).substr(0, end), &SoftLimit::name);
    const auto value = end < word.size() ? parse_u64(std::string_view(word).substr(end + 1)) : std::nullopt;
    if (found != std::end(limits_by_name) && value) limits.push_back({found->name, found->resource, *value});
  }
  return limits;
}

std::string in_words(const SoftLimit& limit, std::uint64_t value) {
  struct Words { std::string_view name, what; bool bytes; char option; };
  constexpr Words words[] = {{"as", "address space", true, 'v'},     {"core", "a core dump", true, 'c'},
                             {"cpu", "seconds of CPU time", false, 't'}, {"data", "data segment", true, 'd'},
                             {"fsize", "a file", true, 'f'},         {"memlock", "locked memory", true, 'l'},
                             {"nofile", "open files", false, 'n'},   {"nproc", "processes", false, 'u'},
                             {"rss", "resident memory", true, 'm'},  {"stack", "stack", true, 's'}};
  const auto found = std::ranges::find(words, std::string_view(limit.name), &Words::name);   // as people know them
  if (found == std::end(words)) return fmt::format("at most {} of {} (ulimit)", value, limit.name);
  const bool small = value < 1 << 20;
  const std::string size = !found->bytes ? std::to_string(value)
                           : small       ? fmt::format("{} bytes", value) : format_mib(value >> 20);
  return fmt::format("at most {} {}{} (ulimit -{})", size, found->bytes ? "of " : "", found->what, found->option);
}

void set_soft_limits(std::span<const SoftLimit> limits) {
  for (const SoftLimit& limit : limits) set_one(limit.resource, limit.value);
}

void raise_soft_limits() {
  for (const SoftLimit& limit : limits_by_name)
    if (limit.resource != RLIMIT_CORE) set_one(limit.resource, RLIM_INFINITY);   // nobody asked for a core
}

}  // namespace thole
