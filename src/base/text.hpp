// Text: splitting, strict numbers, sizes, nearest words, and making a stranger's text safe to print.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty pieces
std::vector<std::string_view> split_lines(std::string_view text);            // no empty last line
std::vector<std::string_view> split(std::string&&, char) = delete;           // the pieces would outlive their text
std::vector<std::string_view> split_lines(std::string&&) = delete;
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string to_lower(std::string_view text);
std::string last_part(std::string_view text);   // what follows the last "/": of a path, of a claim's id "outer/inner"
bool starts_with_ignoring_case(std::string_view text, std::string_view prefix);
bool contains_ignoring_case(std::string_view text, std::string_view part);

// The whole text must be a number in range; no sign, no spaces, no trailing bytes.
std::optional<std::uint64_t> parse_u64(std::string_view text, int base = 10);
std::optional<double> parse_double(std::string_view text);

// "8G", "512MiB", "20GB", "1.5g", "8192" (MiB when no unit) -> MiB, rounded up. K/M/G/T are binary, as nvidia-smi counts.
std::optional<std::uint64_t> parse_size_mib(std::string_view text);
std::string format_mib(std::uint64_t mib);  // "512 MiB", "8.0 GiB"

// "50%" or "50" or "0.5" -> 50.
std::optional<double> parse_percent(std::string_view text);

// The candidate with the smallest edit distance, if it is near enough to be a likely slip (at most a third of the word).
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// Control bytes, escapes and invalid UTF-8 replaced by '?' or \xNN, cut to `max_columns` with an ellipsis.
// Every name, command line or record written by somebody else passes through here before a terminal sees it.
std::string printable(std::string_view text, std::size_t max_columns = 512);

// How many terminal columns a printable text takes.
std::size_t columns_of(std::string_view text);

// A word quoted for sh, only if it needs it.
std::string shell_quote(std::string_view word);

}  // namespace thole
