// From words to units: --on, --not, --model, --memory and the outer allotment, resolved against a snapshot.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/shell_kind.hpp"
#include "model/machine.hpp"
#include "model/request.hpp"
#include "model/unit.hpp"

namespace thole::plan {

using Environment = std::map<std::string, std::string>;

// The outer allotment, as parsed from CUDA_VISIBLE_DEVICES, ROCR_…/HIP_…, ZE_AFFINITY_MASK, SLURM_*, SGE/PBS variables and the
// machine's own `outer`. It narrows and never widens; `named_by` says which variable narrowed ("" = nothing did).
// PBS_GPUFILE names a file: the caller puts what of it concerns this host into the environment in its place.
struct Outer {
  std::vector<bool> visible;                   // by unit, parallel to units(machine)
  std::vector<std::size_t> order;              // the visible ones as a program numbers them: NVIDIA's, then AMD's, Intel's
  std::string named_by;
  std::vector<std::string> variables;          // the same as a list: what to unset
  AskShell shell = {};                         // whose user would unset them
  std::vector<std::string> cautions;           // "CUDA_VISIBLE_DEVICES names GPU 9, which this machine does not have"
};
// THOLE_GPUS says what the numbers of a claim's own list mean, unless none of its GPUs is here and nobody knows whether that
// was told on this machine (`inside`: it was).
Outer outer_allotment(const model::Snapshot& snapshot, const std::vector<model::Unit>& units, const Environment& environment,
                      bool inside = false);

// What of it narrows inside a claim: the masks of programs. An engine's list was for the claim around it, if it was for that: a
// queued job has the list of the shell that submitted it.
Environment masks_alone(Environment environment);

// The GPUs of `host` in the text of PBS_GPUFILE, one "host-gpuN" a line for all hosts of the job: "gpu1,gpu2"; "none" when the
// job has GPUs on other hosts only. Host names agree when their first labels do ("node1", "node1.cluster.edu").
std::string gpus_of_host(std::string_view gpu_file, std::string_view host);

// The GPU or unit a word names: index "3", instance "3:1", UUID or unique prefix, PCI address, MIG UUID (old form too).
// A word that names nothing throws Error(usage) with the nearest names; an ambiguous prefix lists the candidates.
std::vector<std::size_t> resolve(const std::string& word, const model::Snapshot& snapshot,
                                 const std::vector<model::Unit>& units);

// The same as `word` at every look, whatever GPUs are listed then: for an index the UUID (or address) of what it names now.
std::string lasting_name(const std::string& word, const model::Snapshot& snapshot, const std::vector<model::Unit>& units);

// The units a request could ever use here, by index into `units`, and how many of them it takes.
struct Selection {
  std::vector<std::size_t> units;              // in machine order
  unsigned count = 0;                          // request.gpus, but all units where --on names a partitioned GPU as a whole
};

// Visible, named, of the right model, large enough. A process can use one MIG instance, so more than one GPU means whole ones.
// A partitioned GPU named by --on (not by instance) is the gang of all its instances; then the request must take all it names.
// Throws Error(usage) when fewer than asked exist ("9 GPUs asked for; this machine has 8").
Selection eligible(const model::Request& request, const model::Snapshot& snapshot,
                   const std::vector<model::Unit>& units, const Outer& outer);

}  // namespace thole::plan
