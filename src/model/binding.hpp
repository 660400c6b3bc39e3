// Which CPUs, memory nodes and NICs the ranks of one job are to use: what is asked for, and the plan that answers it.
//
// plan::bind() makes the plan of all ranks at once, in the launcher; each child applies its own before exec; the result is read
// back and compared. The names printed and parsed here are those of --bind, --mem, --smt, --nic and of `thole plan --batch`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/cpu_set.hpp"
#include "model/machine.hpp"

namespace thole::model {

enum class BindMode { none, node, package, exclusive, l3, core, compat };
enum class Smt { all, one };                   // all threads of a core, or its lowest allowed one
enum class MemoryPolicy { first_touch, preferred, bind, interleave };
enum class NicMode { none, near, all };        // near: the nearest NIC of each rank, ties to the least assigned

// NVIDIA gpu_affinity's own words.
enum class Affinity { all, single, single_unique, unique_interleaved, unique_contiguous };
enum class Scope { node, socket };

struct CompatOptions {
  Affinity affinity = Affinity::unique_contiguous;
  Scope scope = Scope::node;
  bool balanced = true;
  std::size_t min_cores = 1;                   // both ignored by single and single_unique
  std::optional<std::size_t> max_cores;
  bool operator==(const CompatOptions&) const = default;
};

// Cores that no rank gets: none, the first core of every L3 cache, or the cores of these CPUs.
struct FirstOfL3 { bool operator==(const FirstOfL3&) const = default; };
using Reserve = std::variant<std::monostate, FirstOfL3, CpuSet>;

struct Threads {                               // OMP_NUM_THREADS and its like
  enum class Mode { keep, automatic, fixed };  // automatic: one for each core of the rank
  Mode mode = Mode::keep;
  unsigned count = 0;                          // when fixed
  bool operator==(const Threads&) const = default;
};

struct BindOptions {
  BindMode mode = BindMode::node;
  unsigned cores = 0;                          // of core:N, for each rank
  bool widen = false;                          // node only: the package instead, where the node is short of cores for its GPUs
  Smt smt = Smt::all;
  bool balanced = false;                       // exclusive: every GPU of the machine gets as many cores as the poorest
  bool lend = false;                           // exclusive: cores of nodes without a GPU go to the nearest GPUs
  bool strict = false;                         // refuse where the plan would be degraded
  bool peers = false;                          // each rank sees the GPUs of all ranks, its own first
  Reserve reserve;
  MemoryPolicy memory = MemoryPolicy::first_touch;
  std::optional<std::vector<int>> memory_nodes;  // named by the user: the only way to a node without CPUs
  NicMode nic = NicMode::near;
  Threads threads;
  CompatOptions compat;

  static BindOptions for_command();            // the default for one command: node, widened where that is too narrow
  static BindOptions for_ranks();              // the default for ranks that thole starts: exclusive, lending, thread counts
  bool operator==(const BindOptions&) const = default;
};

struct BindRequest {
  BindOptions options;
  std::optional<CpuSet> allowed;               // the inherited mask; absent = no limit beside what is online
  std::vector<std::vector<std::size_t>> ranks; // the GPUs of each rank, as indices into Machine::gpus; none = not bound
};

struct RankPlan {
  std::size_t rank = 0;
  std::vector<std::size_t> gpus;               // its own
  std::vector<std::size_t> visible;            // those it is to see, in this order; more than its own with peers
  bool bound = false;                          // false: `cpus` is empty and the mask is left alone
  CpuSet cpus;
  std::size_t cores = 0;                       // whole cores that `cpus` are of
  bool degraded = false;                       // not what was asked for; `why` says the reason
  std::string why;                             // one sentence, always
  MemoryPolicy memory = MemoryPolicy::first_touch;
  std::vector<int> memory_nodes;               // empty with first_touch, and where no node is known (then `why` says so)
  std::vector<std::string> nics;               // for this rank (UCX_NET_DEVICES), by name
  std::optional<unsigned> threads;             // set the thread-count variables to this; absent: leave them
  bool operator==(const RankPlan&) const = default;
};

struct BindingPlan {
  BindMode mode = BindMode::none;
  std::vector<RankPlan> ranks;
  std::vector<std::string> nics;               // the same list for every rank (NCCL_IB_HCA): all that some rank uses
  bool operator==(const BindingPlan&) const = default;
};

// No plan: under strict, or where the request has no answer.
struct BindRefusal {
  std::string message;                         // a sentence
  std::optional<std::size_t> rank;             // whose, where one can be named
};

std::string to_string(BindMode mode);          // "core" for core:N; see bind_name
std::string bind_name(const BindOptions& options);  // "exclusive", "core:4", "compat"
const char* to_string(Smt smt);
const char* to_string(MemoryPolicy policy);    // "first-touch", …
const char* to_string(NicMode mode);
const char* to_string(Affinity affinity);
const char* to_string(Scope scope);

// "node", "core:4", … into mode and cores; false when it is no mode.
bool parse_bind_mode(std::string_view text, BindOptions& options);
std::optional<Smt> parse_smt(std::string_view text);
std::optional<MemoryPolicy> parse_memory_policy(std::string_view text);
std::optional<NicMode> parse_nic_mode(std::string_view text);
std::optional<Affinity> parse_affinity(std::string_view text);
std::optional<Scope> parse_scope(std::string_view text);
std::optional<Reserve> parse_reserve(std::string_view text);  // "none", "first-of-l3" or a CPU list
std::optional<Threads> parse_threads(std::string_view text);  // "keep", "auto" or a number of 1 or more
inline constexpr const char* bind_modes = "none, node, package, exclusive, l3, core:N, compat";

}  // namespace thole::model
