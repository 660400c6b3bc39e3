// `topo`: the machine drawn as text and as a vector picture, and the matrix of how its devices are joined.
#pragma once

#include <string>
#include <vector>

#include "app/show/overview.hpp"
#include "app/show/topo.hpp"
#include "cli/show/terminal.hpp"
#include "model/json.hpp"

namespace thole::cli {

// Boxes for packages, sections for NUMA nodes, a line for each GPU; below them how the GPUs are joined and what is free.
std::string render_topo(const app::Overview& overview, const Screen& screen);

// The same as SVG 1.1, for white paper.
std::string render_topo_svg(const app::Overview& overview);

// As `nvidia-smi topo -m` prints it, tabs included, so that what reads that reads this. `columns` of the terminal, at which the
// legend folds; 0: it is none.
std::string render_matrix(const model::Machine& machine, std::size_t columns);
model::Json matrix_to_json(const model::Machine& machine);

// Words that both drawings use.
std::string title_of(const app::Overview& overview);                   // "dgx-a100, simulated machine"
std::string summary_of(const model::Machine& machine);                 // "2 packages, 8 NUMA nodes, 128 cores, …"
std::string holders_of(const app::UnitOverview& unit);                 // "free", "anna", "you", "carla, no claim", "SICK"
std::string gpu_name(const model::Gpu& gpu, bool brief = false);       // "A100-SXM4-80GB"; "?" when it cannot be read
std::string size_of(std::uint64_t mib);                                // "80G": as `status` has it
std::string rate_of(const model::Nic& nic);                            // "200 Gb/s"; "" unknown
std::string node_name(const app::Place& place);                        // "NUMA 3"; "NUMA node unknown"
// "NUMA 3 · 252G"
std::string heading_of(const app::Place& place, const app::Arrangement& chart, const model::Machine& machine);
std::string cores_of(const app::Place& place);                         // "16 cores 0-15 (SMT 128-143)"

// How the GPUs are joined, a fact each: {"NVLink", "GPU 1-2: 4 links"}. Joins too irregular for a phrase come as a table.
struct LinkFact {
  std::string what;                // "NVSwitch", "NVLink", "xGMI", "C2C", "PCIe"
  std::string text;                // one phrase …
  std::vector<std::string> table;  // … or rows of equal width
};
std::vector<LinkFact> link_facts(const model::Machine& machine, const app::Joins& joins);

// NVLinks from one GPU that go through switches: told so, or more in sum than a GPU has.
bool through_switch(const app::Joins& joins, std::size_t gpus);

}  // namespace thole::cli
