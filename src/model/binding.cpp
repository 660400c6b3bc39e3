#include "model/binding.hpp"

#include <utility>

#include "base/text.hpp"

namespace thole::model {

namespace {

template <class T>
using Names = std::initializer_list<std::pair<T, const char*>>;

const Names<BindMode> mode_names = {
    {BindMode::none, "none"}, {BindMode::node, "node"}, {BindMode::package, "package"}, {BindMode::exclusive, "exclusive"},
    {BindMode::l3, "l3"},     {BindMode::core, "core"}, {BindMode::compat, "compat"}};
constexpr Names<Smt> smt_names = {{Smt::all, "all"}, {Smt::one, "one"}};
constexpr Names<MemoryPolicy> memory_names = {{MemoryPolicy::first_touch, "first-touch"},
                                              {MemoryPolicy::preferred, "preferred"},
                                              {MemoryPolicy::bind, "bind"},
                                              {MemoryPolicy::interleave, "interleave"}};
constexpr Names<NicMode> nic_names = {{NicMode::none, "none"}, {NicMode::near, "near"}, {NicMode::all, "all"}};
constexpr Names<Affinity> affinity_names = {{Affinity::all, "all"},
                                            {Affinity::single, "single"},
                                            {Affinity::single_unique, "single_unique"},
                                            {Affinity::unique_interleaved, "unique_interleaved"},
                                            {Affinity::unique_contiguous, "unique_contiguous"}};
constexpr Names<Scope> scope_names = {{Scope::node, "node"}, {Scope::socket, "socket"}};

template <class T>
const char* name_in(const Names<T>& names, T value) {
  for (const auto& [known, name] : names)
    if (known == value) return name;
  return "?";
}

template <class T>
std::optional<T> find_in(const Names<T>& names, std::string_view text) {
  for (const auto& [known, name] : names)
    if (text == name) return known;
  return std::nullopt;
}

}  // namespace

BindOptions BindOptions::for_command() {
  BindOptions options;
  options.widen = true;
  return options;
}

BindOptions BindOptions::for_ranks() {
  BindOptions options;
  options.mode = BindMode::exclusive;
  options.lend = true;
  options.threads.mode = Threads::Mode::automatic;
  return options;
}

std::string to_string(BindMode mode) { return name_in(mode_names, mode); }

std::string bind_name(const BindOptions& options) {
  return options.mode == BindMode::core ? fmt::format("core:{}", options.cores) : to_string(options.mode);
}

const char* to_string(Smt smt) { return name_in(smt_names, smt); }
const char* to_string(MemoryPolicy policy) { return name_in(memory_names, policy); }
const char* to_string(NicMode mode) { return name_in(nic_names, mode); }
const char* to_string(Affinity affinity) { return name_in(affinity_names, affinity); }
const char* to_string(Scope scope) { return name_in(scope_names, scope); }

bool parse_bind_mode(std::string_view text, BindOptions& options) {
  constexpr std::string_view counted = "core:";
  constexpr std::uint64_t most_cores = 65536;
  if (text.substr(0, counted.size()) == counted) {
    const auto cores = parse_u64(text.substr(counted.size()));
    if (!cores || *cores == 0 || *cores > most_cores) return false;
    options.mode = BindMode::core;
    options.cores = static_cast<unsigned>(*cores);
    return true;
  }
  const auto mode = find_in(mode_names, text);
  if (!mode || *mode == BindMode::core) return false;
  options.mode = *mode;
  options.cores = 0;
  return true;
}

std::optional<Smt> parse_smt(std::string_view text) { return find_in(smt_names, text); }
std::optional<MemoryPolicy> parse_memory_policy(std::string_view text) { return find_in(memory_names, text); }
std::optional<NicMode> parse_nic_mode(std::string_view text) { return find_in(nic_names, text); }
std::optional<Affinity> parse_affinity(std::string_view text) { return find_in(affinity_names, text); }
std::optional<Scope> parse_scope(std::string_view text) { return find_in(scope_names, text); }

std::optional<Reserve> parse_reserve(std::string_view text) {
  if (text == "none") return Reserve();
  if (text == "first-of-l3") return Reserve(FirstOfL3{});
  if (auto cpus = CpuSet::parse(text)) return Reserve(*std::move(cpus));
  return std::nullopt;
}

std::optional<Threads> parse_threads(std::string_view text) {
  constexpr std::uint64_t most = 65536;
  if (text == "keep") return Threads{};
  if (text == "auto") return Threads{Threads::Mode::automatic, 0};
  const auto count = parse_u64(text);
  if (!count || *count == 0 || *count > most) return std::nullopt;
  return Threads{Threads::Mode::fixed, static_cast<unsigned>(*count)};
}

}  // namespace thole::model
