// Numbers that nobody can guess, from the kernel.
#pragma once

#include <cstdint>

namespace thole {

// 64 of its random bits. Waits for them where the machine has just started.
std::uint64_t random_bits();

}  // namespace thole
