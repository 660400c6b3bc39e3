// Soft limits of a process (getrlimit), which a job keeps from where it was submitted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace thole {

struct SoftLimit {
  const char* name = "";                         // as in "cpu=77"
  int resource = 0;
  std::uint64_t value = 0;                       // RLIM_INFINITY: none
};

// "at most 195 GiB of address space (ulimit -v)"
std::string in_words(const SoftLimit& limit, std::uint64_t value);

std::vector<SoftLimit> soft_limits();            // of this process, all of them

// To be kept: "cpu=77"; what is unlimited is left out. Read again, what this build does not know is passed over.
std::vector<std::string> as_words(std::span<const SoftLimit> limits);
std::vector<SoftLimit> limits_of(std::span<const std::string> words);

// Each as far as the hard limit allows, which stays. Allocates nothing.
void set_soft_limits(std::span<const SoftLimit> limits);
void raise_soft_limits();                        // to the hard ones, but that of a core dump

}  // namespace thole
