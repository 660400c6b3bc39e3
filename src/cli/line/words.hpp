// Strict readings of option values; each throws Error(usage) that quotes the value and says what was expected.
#pragma once

#include <string>
#include <vector>

#include "base/time.hpp"
#include "cli/line/table.hpp"

namespace thole::cli {

unsigned count_of(const Word& word);  // 0 … 4096
pid_t pid_of(const Word& word);
Millis duration_of(const Word& word);  // "90s", "1h30m", "0.3s", "0", "45" (seconds)
Millis positive_duration_of(const Word& word);
Seconds run_time_of(const Word& word);  // the same with its unit: elsewhere "45" is minutes, and a job dies by the mistake
std::uint64_t size_mib_of(const Word& word);                        // "20G", more than 0
double factor_of(const Word& word);                                 // 1 or more; 0 for "none"
double percent_of(const Word& word);                                // 0 … 100
unsigned number_of(const Word& word, unsigned least, unsigned most);
std::vector<std::string> gpus_of(const Word& word);                 // "0-2,GPU-5c2f" as 0, 1, 2, GPU-5c2f: no empty pieces
std::string text_of(const Word& word);                              // anything but ""
std::string choice_of(const Word& word, std::string_view choices);  // one of "a|b|c"

// The word in double quotes, made printable and cut.
std::string in_quotes(std::string_view word);

// Error(usage): "--gpus: expected a number, got \"x\"".
[[noreturn]] void throw_expected(const Word& word, std::string_view expected);

// Error(usage) for a word that is none of the known ones, with the nearest in the hint.
[[noreturn]] void throw_unknown(std::string_view what, std::string_view word, const std::vector<std::string>& known,
                                std::string_view otherwise);

}  // namespace thole::cli
