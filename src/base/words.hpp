// Phrases that many pages need: a count with its noun, a command as one would type it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole {

std::string plural(std::uint64_t count, std::string_view noun);  // "1 GPU", "2 GPUs"

// The words of a command as one line, each quoted for sh where it needs it.
std::string command_line(std::span<const std::string> argv);

// A list that may be of any length, for people: the first of it, and "and 1092 more".
inline constexpr std::size_t most_listed = 8;
std::vector<std::string> some_of(std::vector<std::string> all, std::size_t most = most_listed);
std::string and_more(std::size_t all, std::size_t named);   // " and 1092 more"; "" where all are named

}  // namespace thole
