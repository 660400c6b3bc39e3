// FNV-1a: a number from a text, the same on every machine and in every version. For names and checks, not against forgers.
#pragma once

#include <cstdint>
#include <string_view>

namespace thole {

constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace thole
