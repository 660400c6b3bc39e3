// SipHash-2-4 (Aumasson, Bernstein): a number from a text that only who has the key can tell, however many others he has seen.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace thole {

struct HashKey { std::uint64_t first = 0, second = 0; };

constexpr std::uint64_t keyed_hash(HashKey key, std::string_view text) {
  std::uint64_t a = key.first ^ 0x736f6d6570736575u, b = key.second ^ 0x646f72616e646f6du;
  std::uint64_t c = key.first ^ 0x6c7967656e657261u, d = key.second ^ 0x7465646279746573u;
  const auto rounds = [&](int count) {
    for (; count > 0; --count) {
      a += b; c += d;
      b = std::rotl(b, 13) ^ a; d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b; a += d;
      b = std::rotl(b, 17) ^ c; d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  };
  const auto take = [&](std::uint64_t word) { d ^= word; rounds(2); a ^= word; };
  std::uint64_t word = 0;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    word |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[at])) << (at % 8 * 8);
    if (at % 8 == 7) { take(word); word = 0; }
  }
  take(word | static_cast<std::uint64_t>(at & 0xff) << 56);
  c ^= 0xff;
  rounds(4);
  return a ^ b ^ c ^ d;
}

}  // namespace thole
