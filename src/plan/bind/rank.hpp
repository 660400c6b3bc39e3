// Which rank of this machine a process is, by the variables of the launcher that started it; and which GPUs it has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/place/select.hpp"

namespace thole::plan {

struct LocalRank {
  unsigned rank = 0;                             // from 0, on this machine
  std::optional<unsigned> ranks;                 // how many this machine has; absent where the launcher does not say
  std::string named_by;                          // "LOCAL_RANK", …
};

// torchrun (LOCAL_RANK, LOCAL_WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_LOCAL_RANK, _SIZE), MPICH and Intel MPI (MPI_LOCALRANKID,
// MPI_LOCALNRANKS), Slurm (SLURM_LOCALID; the number from SLURM_STEP_TASKS_PER_NODE, SLURM_TASKS_PER_NODE or
// SLURM_NTASKS_PER_NODE). The first that is there counts: torchrun may run below srun or mpirun, and mpirun below Slurm.
// Nothing where none is; Error(usage) for a value that is no number.
std::optional<LocalRank> local_rank(const Environment& environment);

// Slurm's short form of the tasks of each node, "4(x2),3": those of node number `node`.
std::optional<unsigned> tasks_of_node(std::string_view list, std::size_t node);

// The GPUs of each rank: rank r has the `each` ones from r times `each` on, round and round where there are more ranks. That is
// the device a program takes that counts by its local rank.
std::vector<std::vector<std::size_t>> spread(const std::vector<std::size_t>& gpus, unsigned ranks, unsigned each);

}  // namespace thole::plan
