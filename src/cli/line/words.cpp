#include "cli/line/words.hpp"

#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/line/foreign.hpp"

namespace thole::cli {

namespace {

constexpr unsigned most_gpus = 4096;  // a slip of the finger, not a machine

// The one candidate that begins with the word: "--mem" can only mean --memory.
std::optional<std::string> only_beginning(std::string_view word, const std::vector<std::string>& known) {
  std::optional<std::string> found;
  for (const std::string& candidate : known) {
    if (!candidate.starts_with(word)) continue;
    if (found) return std::nullopt;
    found = candidate;
  }
  return found;
}

// "4:00:00" as "4h", "1:30:00" as "1h30m"; absent when it is no such time.
std::optional<std::string> by_the_clock(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() != 3) return std::nullopt;
  const auto hours = parse_u64(parts[0]), minutes = parse_u64(parts[1]), seconds = parse_u64(parts[2]);
  if (!hours || !minutes || !seconds || *hours > 100'000 || *minutes > 59 || *seconds > 59) return std::nullopt;
  std::string time;
  for (const auto& [number, unit] : {std::pair{*hours, 'h'}, {*minutes, 'm'}, {*seconds, 's'}})
    if (number > 0) time += fmt::format("{}{}", number, unit);
  return time.empty() ? "0" : time;
}

}  // namespace

std::string in_quotes(std::string_view word) { return fmt::format("\"{}\"", printable(word, 60)); }

void throw_expected(const Word& word, std::string_view expected) {
  throw Error(ErrorCode::usage, fmt::format("{}: expected {}, got {}", word.option, expected, in_quotes(word.text)));
}

unsigned count_of(const Word& word) {
  const auto count = parse_u64(word.text);
  const bool digits = word.text.find_first_not_of("0123456789") == std::string_view::npos;
  if (!count && !digits)
    if (const auto these = all_of_these(word.text))
      throw Error(ErrorCode::usage, fmt::format("{}: expected a number, got {}", word.option, in_quotes(word.text)))
          .hint(fmt::format("these GPUs by their numbers: {}", printable(*these, 60)));
  if (!count && !digits) throw_expected(word, "a number");
  if (!count || *count > most_gpus) throw_expected(word, fmt::format("a number up to {}", most_gpus));
  return static_cast<unsigned>(*count);
}

unsigned number_of(const Word& word, unsigned least, unsigned most) {
  auto number = parse_u64(word.text);
  if (!number || *number < least || *number > most) throw_expected(word, fmt::format("a number from {} to {}", least, most));
  return static_cast<unsigned>(*number);
}

pid_t pid_of(const Word& word) {
  auto pid = parse_u64(word.text);
  if (!pid || *pid == 0 || *pid > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max()))
    throw_expected(word, "a process id");
  return static_cast<pid_t>(*pid);
}

Millis duration_of(const Word& word) {
  if (const auto duration = parse_duration(word.text)) return *duration;
  constexpr const char* expected = "a time such as 0.5s, 90s, 30m, 8h or 1h30m";
  if (const auto clock = by_the_clock(word.text))  // Slurm's and gflow's 4:00:00
    throw Error(ErrorCode::usage, fmt::format("{}: expected {}, got {}", word.option, expected, in_quotes(word.text)))
        .hint(fmt::format("{} {}", word.option, *clock));
  throw_expected(word, expected);
}

Seconds run_time_of(const Word& word) {
  if (const auto bare = parse_double(word.text); bare && *bare > 0)
    throw Error(ErrorCode::usage, fmt::format("{} {}: seconds, minutes or hours?", word.option, word.text))
        .hint(fmt::format("{0} {1}s, {0} {1}m or {0} {1}h", word.option, word.text));
  return std::chrono::ceil<Seconds>(positive_duration_of(word));   // a limit: not below what was said
}

Millis positive_duration_of(const Word& word) {
  const Millis duration = duration_of(word);
  if (duration <= Millis{0}) throw_expected(word, "a time longer than 0");
  return duration;
}

std::uint64_t size_mib_of(const Word& word) {
  auto size = parse_size_mib(word.text);
  if (!size) throw_expected(word, "a size such as 20G or 512MiB");
  if (*size == 0) throw_expected(word, "a size of more than 0");
  return *size;
}

double factor_of(const Word& word) {
  if (word.text == "none") return 0;
  const auto factor = parse_double(word.text);
  if (!factor || *factor < 1 || *factor > 1000) throw_expected(word, "1 or more, or none: a job ends by its declared time");
  return *factor;
}

double percent_of(const Word& word) {
  auto percent = parse_percent(word.text);
  if (!percent || *percent < 0 || *percent > 100) throw_expected(word, "a percentage such as 50%");
  return *percent;
}

std::vector<std::string> gpus_of(const Word& word) {
  std::vector<std::string> pieces;
  for (std::string_view piece : split(word.text, ',')) {
    piece = trim(piece);
    if (piece.empty()) throw_expected(word, "GPUs separated by commas, such as 0,3");
    for (const std::string_view prefix : {"cuda:", "gpu"})
      if (piece.size() > prefix.size() && piece.starts_with(prefix) && parse_u64(piece.substr(prefix.size())))
        throw Error(ErrorCode::usage, fmt::format("{}: no such GPU: {}", word.option, printable(piece, 60)))
            .hint(fmt::format("in the order of nvidia-smi: {} {}", word.option, piece.substr(prefix.size())));
    const std::size_t dash = piece.find('-');
    const auto first = parse_u64(piece.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_u64(piece.substr(dash + 1));
    if (dash == std::string_view::npos || !first || !last) {
      pieces.emplace_back(piece);
      continue;
    }
    if (*last < *first || *last - *first >= most_gpus) throw_expected(word, "a range such as 0-3");
    for (std::uint64_t gpu = *first; gpu <= *last; ++gpu) pieces.push_back(std::to_string(gpu));
  }
  return pieces;
}

std::string text_of(const Word& word) {
  if (word.text.empty()) throw_expected(word, "a value");
  return std::string(word.text);
}

std::string choice_of(const Word& word, std::string_view choices) {
  std::vector<std::string> known;
  for (std::string_view choice : split(choices, '|')) known.emplace_back(choice);
  for (const std::string& choice : known)
    if (choice == word.text) return choice;
  throw_unknown(fmt::format("{}:", word.option), word.text, known, fmt::format("one of {}", join(known, ", ")));
}

void throw_unknown(std::string_view what, std::string_view word, const std::vector<std::string>& known,
                   std::string_view otherwise) {
  auto near = word.size() > 2 ? only_beginning(word, known) : std::nullopt;
  if (!near) near = nearest(word, known);
  throw Error(ErrorCode::usage, fmt::format("{} {}", what, in_quotes(word)))
      .hint(near ? fmt::format("did you mean {}?", *near) : std::string(otherwise));
}

}  // namespace thole::cli
