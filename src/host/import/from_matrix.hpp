// A machine file's machine from the table that `nvidia-smi topo -m` prints, and `thole topo --matrix`. Pure.
#pragma once

#include <string>
#include <string_view>

#include "model/machine.hpp"

namespace thole::host {

// Whether the text has such a table in it, among whatever else (a terminal's log, the output of a script).
bool has_matrix(std::string_view text);

// Reads the first table: with tabs or, copied from a terminal, blanks; with the header's escape sequences or without; with or
// without NICs, their legend, and the columns CPU Affinity, NUMA Affinity and GPU NUMA ID. What the table does not tell stays
// unknown: cores, caches and packages, CPUs near no GPU, models and UUIDs. PCI addresses are made up in the table's order, in
// domains that no machine has (ff00 for GPUs, ff01 for NICs), because links are told by them. NV# is NVLink, or NVSwitch where
// a GPU has more of them than it has links. A NIC's node is that of the GPUs which reach it within theirs. Throws Error(usage)
// about `what` with the line that is not understood; what is read and may be wrong all the same is added to `doubts`.
model::Machine machine_of_matrix(std::string_view text, const std::string& what, std::vector<std::string>* doubts = nullptr);

}  // namespace thole::host
