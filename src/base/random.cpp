#include "base/random.hpp"

#include <sys/random.h>

namespace thole {

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {}
  return bits;
}

}  // namespace thole
