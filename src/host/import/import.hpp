// Machines from what other programs say of them: the formats behind `thole capture --from`.
#pragma once

#include <string>
#include <vector>

#include "host/topology/reader.hpp"
#include "model/machine.hpp"

namespace thole::host {

// A file: XML exported by hwloc (lstopo --of xml), the report of nvidia-smi -q -x, the table of nvidia-smi topo -m. Told apart
// by their content. A pipe will do, "-" is stdin. The machine is named after the file. Throws Error(usage) for anything else,
// naming what could be given.
// Sentences on what is read and may be wrong all the same are added to `doubts`.
model::Machine import_file(const std::string& path, const TopologyReader& reader, std::vector<std::string>* doubts = nullptr);

// The same of a text that is not hwloc's; `what` names it in errors.
model::Machine import_text(const std::string& text, const std::string& what, std::vector<std::string>* doubts = nullptr);

// A folder with the /sys and /proc of a machine, itself or one level down, as hwloc-gather-topology packs it. Throws
// Error(usage) when it is none.
std::string root_in(const std::string& directory);

// The machine below such a root. `gpus`: those that the vendors' drivers have left traces of;
// other GPUs on its PCI bus are added.
model::Machine import_tree(const std::string& root, std::vector<model::Gpu> gpus, const TopologyReader& reader);

}  // namespace thole::host
