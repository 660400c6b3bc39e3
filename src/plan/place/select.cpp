#include "plan/place/select.hpp"

#include <algorithm>
#include <set>

#include "base/refusal.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "plan/turn/turn.hpp"

namespace thole::plan {

using model::Gpu;
using model::Machine;
using model::Unit;

namespace {

using Indices = std::vector<std::size_t>;

std::string what_there_is(const std::vector<Unit>& units) {
  std::size_t instances = 0;
  for (const Unit& unit : units) instances += unit.instance.has_value();
  if (instances == 0) return std::to_string(units.size());
  return fmt::format("{} and {}", plural(units.size() - instances, "whole GPU"), plural(instances, "instance"));
}

Indices units_of_gpu(std::size_t gpu, const std::vector<Unit>& units) {
  Indices found;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (units[i].gpu == gpu) found.push_back(i);
  return found;
}

// The driver may have told some of its instances, or none: it may have what is asked for.
bool is_untold(const Gpu& gpu) { return gpu.mig_mode && gpu.health != model::Health::ok; }

[[noreturn]] void refuse_untold(const Gpu& gpu, const std::string& named) {
  throw DriverTrouble(Error(ErrorCode::unavailable, gpu.health_reason).about(named).hint("thole doctor"));
}

// It, or an instance of it.
bool may_name(const std::string& word, const Gpu& gpu) {
  if (starts_with_ignoring_case(word, "MIG-") || (gpu.pci && model::PciAddress::parse(word) == gpu.pci)) return true;
  return starts_with_ignoring_case(gpu.uuid, word) || starts_with_ignoring_case(gpu.uuid, "GPU-" + word);
}

[[noreturn]] void no_such(const std::string& word, const model::Snapshot& snapshot, const std::vector<Unit>& units) {
  const std::size_t n = snapshot.machine.gpus.size();
  if (n == 0) throw Error(ErrorCode::usage, "no such GPU: this machine has none").about(printable(word, 80));
  std::vector<std::string> names;
  for (const Unit& unit : units) {
    const Gpu& gpu = unit.gpu_of(snapshot.machine);
    names.insert(names.end(), {unit.label, unit.key, gpu.uuid});
    if (gpu.pci) names.push_back(gpu.pci->to_string());
  }
  const bool is_list = !parse_u64(word) && word.find_first_not_of("0123456789. -") == word.npos;   // "0..3", "0 1", "3-0"
  const auto near = parse_u64(word) || is_list ? std::nullopt : nearest(word, names);
  const std::string have = n == 1 ? "this machine has one, GPU 0" : fmt::format("this machine has GPUs 0 to {}", n - 1);
  const std::string hint = is_list ? "GPUs are separated by commas, and a range has a dash, such as 0,1 or 0-3; " + have
                           : near  ? fmt::format("did you mean {}? {}", *near, have)
                                   : have + "; thole status --list names them";
  throw Error(ErrorCode::usage, "no such GPU").about(printable(word, 80)).hint(hint);
}

// "3" or "3:1"; an empty answer when the word is of another form.
std::optional<Indices> by_index(const std::string& word, const model::Snapshot& snapshot, const std::vector<Unit>& units) {
  const auto pieces = split(word, ':');
  if (pieces.size() > 2) return std::nullopt;
  const auto gpu = parse_u64(pieces[0]);
  const auto instance = pieces.size() == 2 ? parse_u64(pieces[1]) : std::nullopt;
  if (!gpu || (pieces.size() == 2 && !instance)) return std::nullopt;
  Indices found = *gpu < snapshot.machine.gpus.size() ? units_of_gpu(*gpu, units) : Indices{};
  if (instance) std::erase_if(found, [&](std::size_t i) { return units[i].instance != *instance; });
  if (!found.empty()) return found;
  if (*gpu >= snapshot.machine.gpus.size()) no_such(word, snapshot, units);
  const model::Gpu& whole = snapshot.machine.gpus[*gpu];
  if (!whole.health_reason.empty()) refuse_untold(whole, "GPU " + word);   // it may have others
  if (instance) {
    const std::size_t n = whole.mig.size();
    throw Error(ErrorCode::usage, fmt::format("GPU {} {}", *gpu, n ? "has " + plural(n, "instance") : "is not partitioned"))
        .about(word).hint("thole status --list names them");
  }
  throw Error(ErrorCode::usage, "it is in MIG mode and has no instances").about("GPU " + word)
      .hint("nvidia-smi mig -cgi … -C makes them");
}

Indices by_pci(const model::PciAddress& pci, const model::Snapshot& snapshot, const std::vector<Unit>& units) {
  Indices found;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (units[i].gpu_of(snapshot.machine).pci == pci) found.push_back(i);
  return found;
}

// "MIG-GPU-<uuid>/<GPU instance>/<compute instance>", as drivers before R470 wrote it.
Indices by_old_mig_name(const std::string& word, const model::Snapshot& snapshot, const std::vector<Unit>& units) {
  const auto pieces = split(std::string_view(word).substr(4), '/');
  Indices found;
  if (pieces.size() != 3) return found;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Gpu& gpu = units[i].gpu_of(snapshot.machine);
    if (!units[i].instance || to_lower(gpu.uuid) != to_lower(pieces[0])) continue;
    const auto& ids = gpu.mig[*units[i].instance].instance;
    const bool known = ids[0] >= 0 && ids[1] >= 0;
    if (known && std::to_string(ids[0]) == pieces[1] && std::to_string(ids[1]) == pieces[2]) found.push_back(i);
  }
  return found;
}

// A UUID, whole or its beginning, with or without "GPU-" or "MIG-". A partitioned GPU's UUID names all its instances.
Indices by_uuid(const std::string& word, const model::Snapshot& snapshot, const std::vector<Unit>& units) {
  struct Name { std::string text; Indices units; };
  std::vector<Name> names;
  for (std::size_t g = 0; g < snapshot.machine.gpus.size(); ++g)
    if (!snapshot.machine.gpus[g].uuid.empty()) names.push_back({snapshot.machine.gpus[g].uuid, units_of_gpu(g, units)});
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Gpu& gpu = units[i].gpu_of(snapshot.machine);
    if (units[i].instance) names.push_back({gpu.mig[*units[i].instance].uuid, {i}});
    if (units[i].key != gpu.uuid) names.push_back({units[i].key, {i}});
  }
  Indices found;
  std::vector<std::string> matches;
  for (const Name& name : names) {
    if (name.text.empty() || name.units.empty()) continue;
    if (to_lower(name.text) == to_lower(word)) return name.units;
    const bool prefixed = name.text.size() > 4 && name.text[3] == '-' && starts_with_ignoring_case(name.text.substr(4), word);
    if (!prefixed && !starts_with_ignoring_case(name.text, word)) continue;
    if (!found.empty() && found == name.units) continue;  // the same device by another of its names
    matches.push_back(printable(name.text, 60));
    found = name.units;
  }
  if (matches.size() > 1) {
    const std::size_t shown = std::min<std::size_t>(matches.size(), 4);
    throw Error(ErrorCode::usage, fmt::format("it is the beginning of {} names", matches.size()))
        .about(printable(word, 80))
        .hint(join(std::span(matches).first(shown), ", ") + (matches.size() > shown ? ", …" : ""));
  }
  return found;
}

}  // namespace

std::vector<std::size_t> resolve(const std::string& given, const model::Snapshot& snapshot, const std::vector<Unit>& units) {
  const std::string word(trim(given));
  if (word.empty())
    throw Error(ErrorCode::usage, "an empty name names no GPU").hint("a GPU is named by index, UUID or PCI address");
  if (auto found = by_index(word, snapshot, units)) return *std::move(found);
  Indices found;
  if (starts_with_ignoring_case(word, "MIG-GPU-")) found = by_old_mig_name(word, snapshot, units);
  if (found.empty())
    if (const auto pci = model::PciAddress::parse(word)) found = by_pci(*pci, snapshot, units);
  if (found.empty()) found = by_uuid(word, snapshot, units);
  if (!found.empty()) return found;
  for (const Gpu& gpu : snapshot.machine.gpus)
    if (is_untold(gpu) && may_name(word, gpu))
      refuse_untold(gpu, printable(word, 80));
  no_such(word, snapshot, units);
}

std::string lasting_name(const std::string& word, const model::Snapshot& snapshot, const std::vector<Unit>& units) {
  const auto named = by_index(std::string(trim(word)), snapshot, units);
  if (!named) return word;
  return named->size() == 1 ? units[named->front()].key : units[named->front()].gpu_of(snapshot.machine).key();
}

namespace {

// The successive narrowing of what would do; each step that leaves too few says what it was.
class Narrowing {
 public:
  Narrowing(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units)
      : request_(request), machine_(snapshot.machine), units_(units), left_(units.size(), true) {}

  template <class Keep>
  void keep(Keep keep) {
    for (std::size_t i = 0; i < left_.size(); ++i) left_[i] = left_[i] && keep(i);
  }
  std::size_t count() const { return static_cast<std::size_t>(std::count(left_.begin(), left_.end(), true)); }
  Indices indices() const {
    Indices result;
    for (std::size_t i = 0; i < left_.size(); ++i)
      if (left_[i]) result.push_back(i);
    return result;
  }
  // Not where there may be more than was told.
  [[noreturn]] void refuse(const std::string& why, const std::string& hint = "") const {
    refuse_if_untold();
    refuse_for_ever(why, hint);
  }
  [[noreturn]] void refuse_for_ever(const std::string& why, const std::string& hint) const {
    throw NeverPossible(Error(ErrorCode::usage, fmt::format("{} asked for; {}", plural(request_.gpus, "GPU"), why)).hint(hint));
  }
  bool too_few() const { return count() < request_.gpus; }
  void refuse_if_untold() const;
  void refuse_part_of_gang(std::size_t before, const std::string& what) const;

  void by_name(const model::Snapshot& snapshot);
  void by_outer(const Outer& outer);
  void by_model();
  void by_memory();
  void whole_only();

  bool gang = false;                           // --on names a partitioned GPU: all that is named is taken

 private:
  const model::Request& request_;
  const Machine& machine_;
  const std::vector<Unit>& units_;
  std::vector<bool> left_;
  std::set<std::size_t> on_;                   // the GPUs that --on names, once they are known
};

void Narrowing::refuse_if_untold() const {
  std::string untold;
  for (std::size_t g = 0; g < machine_.gpus.size(); ++g)
    if (is_untold(machine_.gpus[g]) && (on_.empty() || on_.contains(g)))
      untold += fmt::format("\n  GPU {}: {}", g, printable(machine_.gpus[g].health_reason, 200));
  if (!untold.empty())
    throw DriverTrouble(Error(ErrorCode::unavailable, fmt::format("{} asked for; too few are told of{}",
                                                                  plural(request_.gpus, "GPU"), untold)).hint("thole doctor"));
}

void Narrowing::by_name(const model::Snapshot& snapshot) {
  if (!request_.on.empty()) {
    std::vector<bool> named(units_.size());
    std::vector<Indices> distinct;
    for (const std::string& word : request_.on) {
      Indices found = resolve(word, snapshot, units_);
      for (const std::size_t i : found) {
        named[i] = true;
        on_.insert(units_[i].gpu);
      }
      gang = gang || found.size() > 1;
      if (std::find(distinct.begin(), distinct.end(), found) == distinct.end()) distinct.push_back(std::move(found));
    }
    keep([&](std::size_t i) { return named[i]; });
    if (gang && distinct.size() > request_.gpus)
      refuse_for_ever(
          fmt::format("--on names {}, one of them partitioned", distinct.size()),
          "name its instances, such as 3:0, or ask for as many GPUs as --on names");
    const bool counted_out = gang && count() == request_.gpus;  // asked for by the number of its instances
    if (distinct.size() < request_.gpus && !counted_out)
      refuse("--on names " + std::to_string(distinct.size()), "name more GPUs, or none");
  }
  for (const std::string& word : request_.not_on) {
    const Indices found = resolve(word, snapshot, units_);
    keep([&](std::size_t i) { return std::find(found.begin(), found.end(), i) == found.end(); });
  }
  if (too_few()) refuse(fmt::format("--not leaves {}", count()));
}

// An engine's list is not the user's to lift.
std::string cure_of(const Outer& outer) {
  const std::string rule = "thole claims within what was allotted, never outside it";
  if (outer.variables.empty() || !std::ranges::all_of(outer.variables, model::is_mask)) return rule;
  return fmt::format("{}; if you set it yourself: {}", rule, unset_in(outer.shell, outer.variables));
}

void Narrowing::by_outer(const Outer& outer) {
  const std::size_t before = count();
  keep([&](std::size_t i) { return i >= outer.visible.size() || outer.visible[i]; });
  const bool lost_of_gang = gang && count() < before;
  if (!too_few() && !lost_of_gang) return;
  if (!outer.variables.empty()) refuse_if_untold();   // they may name some of those; a claim's list does not
  refuse_for_ever(fmt::format("{} leaves {} of the {} that would do",
                              outer.named_by.empty() ? "the outer allotment" : outer.named_by, count(), before),
                  cure_of(outer));
}

// All of a partitioned GPU that --on names is taken, or nothing: never what is left of it.
void Narrowing::refuse_part_of_gang(std::size_t before, const std::string& what) const {
  if (!gang || count() == before || count() == 0) return;
  std::vector<std::string> labels;
  for (const std::size_t i : indices()) labels.push_back(units_[i].label);
  refuse(fmt::format("{} of the {} that --on names {}", count(), before, what),
         "name what would do: --on " + join(labels, ","));
}

void Narrowing::by_model() {
  if (request_.model.empty()) return;
  const std::size_t before = count();
  std::vector<std::string> models;
  for (const std::size_t i : indices()) {
    const std::string model = units_[i].model_of(machine_);
    if (!model.empty() && std::find(models.begin(), models.end(), model) == models.end()) models.push_back(model);
  }
  keep([&](std::size_t i) { return contains_ignoring_case(units_[i].model_of(machine_), request_.model); });
  refuse_part_of_gang(before, fmt::format("{} of model {}", count() == 1 ? "is" : "are", printable(request_.model, 60)));
  if (!too_few()) return;
  refuse_if_untold();
  for (std::string& model : models) model = printable(model, 60);
  const std::string have = models.empty() ? "the models of this machine's GPUs cannot be read" : "here: " + join(models, ", ");
  const std::string wanted = printable(request_.model, 60);
  if (count() > 0) refuse(fmt::format("{} {} of model {}", count(), count() == 1 ? "is" : "are", wanted), have);
  std::vector<std::string> words;
  for (const std::string& model : models)
    for (const std::string_view part : split(model, ' '))
      for (const std::string_view word : split(part, '-')) words.emplace_back(word);
  const auto near = nearest(request_.model, words);
  throw NeverPossible(Error(ErrorCode::usage, "no GPU that would do is of this model").about(wanted)
                          .hint((near ? "did you mean " + *near + "? " : "") + have));
}

void Narrowing::by_memory() {
  if (!request_.memory_mib) return;
  const std::uint64_t context = request_.share ? share_context_mib : 0;
  const std::size_t before = count();
  std::uint64_t largest = 0;
  bool unknown = false;
  keep([&](std::size_t i) {
    const auto memory = units_[i].memory_mib_of(machine_);
    largest = std::max(largest, memory.value_or(0));
    unknown = unknown || !memory;
    if (!memory && units_[i].gpu_of(machine_).health != model::Health::ok) return true;   // why it is ill is told; or it waits
    return memory && *memory >= context && *memory - context >= *request_.memory_mib;
  });
  const std::string enough = format_mib(*request_.memory_mib + context);
  refuse_part_of_gang(before, fmt::format("{} {}", count() == 1 ? "has" : "have", enough));
  if (!too_few()) return;
  const bool look_alike = format_mib(*request_.memory_mib) == format_mib(largest);   // 81921 MiB, and 80.0 GiB
  const auto text_of = [&](std::uint64_t mib) { return look_alike ? fmt::format("{} MiB", mib) : format_mib(mib); };
  std::string need = text_of(*request_.memory_mib);
  if (context) need += " (and " + format_mib(context) + " for its context)";
  if (unknown && largest == 0)
    throw DriverTrouble(Error(ErrorCode::unavailable, "the memory of those that would do cannot be read, so " + need +
                                                          " cannot be promised").hint("thole doctor"));
  refuse(fmt::format("{} of those that would do {} {}", count(), count() == 1 ? "has" : "have", need),
         "the largest has " + text_of(largest));
}

void Narrowing::whole_only() {
  if (request_.gpus < 2 || gang) return;
  std::size_t instances = 0;
  keep([&](std::size_t i) {
    const bool mig = units_[i].instance && model::row_of(units_[i].gpu_of(machine_).vendor).one_instance_a_process;
    instances += mig;
    return !mig;
  });
  if (too_few() && instances > 0)
    refuse(fmt::format("{} would do, and {} cannot be added", plural(count(), "whole GPU"), plural(instances, "MIG instance")),
           "a process can use one MIG instance only: claim them one by one, with -g 1");
}

}  // namespace

Selection eligible(const model::Request& request, const model::Snapshot& snapshot, const std::vector<Unit>& units,
                   const Outer& outer) {
  Narrowing narrowing(request, snapshot, units);
  if (request.gpus == 0) return {};
  for (const std::string& word : request.order) (void)resolve(word, snapshot, units);   // a wrong one is told now
  if (narrowing.too_few()) {
    for (const model::Observation& observation : snapshot.observations)
      if (units.empty() && !observation.problem.empty())
        throw DriverTrouble(Error(ErrorCode::unavailable, "no GPU can be used: " + printable(observation.problem, 400)));
    if (units.empty()) narrowing.refuse("this machine has none", "try a simulated machine: --machine dgx-a100");
    narrowing.refuse("this machine has " + what_there_is(units));
  }
  narrowing.by_name(snapshot);
  narrowing.by_outer(outer);
  narrowing.by_model();
  narrowing.by_memory();
  narrowing.whole_only();
  Selection selection{narrowing.indices(), request.gpus};
  if (narrowing.gang) selection.count = static_cast<unsigned>(selection.units.size());
  return selection;
}

}  // namespace thole::plan
