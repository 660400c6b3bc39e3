// Phrases that many pages need: a count with its noun, a command as one would type it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace thole {

std::string plural(std::uint64_t count, std::string_view noun);  // "1 GPU", "2 GPUs"

// The words of a command as one line, each quoted for sh where it needs it.
std::string command_line(std::span<const std::string> argv);

}  // namespace thole
