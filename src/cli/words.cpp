#include "cli/words.hpp"

#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

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

}  // namespace

std::string in_quotes(std::string_view word) { return fmt::format("\"{}\"", printable(word, 60)); }

void throw_expected(const Word& word, std::string_view expected) {
  throw Error(ErrorCode::usage, fmt::format("{}: expected {}, got {}", word.option, expected, in_quotes(word.text)));
}

unsigned count_of(const Word& word) {
  auto count = parse_u64(word.text);
  if (!count) throw_expected(word, "a number");
  if (*count > most_gpus) throw_expected(word, fmt::format("a number up to {}", most_gpus));
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

Seconds duration_of(const Word& word) {
  auto duration = parse_duration(word.text);
  if (!duration) throw_expected(word, "a time such as 90s, 30m, 8h or 1h30m");
  return *duration;
}

Seconds positive_duration_of(const Word& word) {
  Seconds duration = duration_of(word);
  if (duration <= Seconds{0}) throw_expected(word, "a time longer than 0");
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

std::vector<std::string> list_of(const Word& word) {
  std::vector<std::string> pieces;
  for (std::string_view piece : split(word.text, ',')) {
    piece = trim(piece);
    if (piece.empty()) throw_expected(word, "GPUs separated by commas, such as 0,3");
    pieces.emplace_back(piece);
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

plan::Halt halt_of(const Word& word) {
  const auto halt = plan::parse_halt(word.text);
  if (!halt) throw_expected(word, "never, or soon or now with fail, success or done and a number, such as now,fail=1");
  return *halt;
}

void throw_unknown(std::string_view what, std::string_view word, const std::vector<std::string>& known,
                   std::string_view otherwise) {
  auto near = word.size() > 2 ? only_beginning(word, known) : std::nullopt;
  if (!near) near = nearest(word, known);
  throw Error(ErrorCode::usage, fmt::format("{} {}", what, in_quotes(word)))
      .hint(near ? fmt::format("did you mean {}?", *near) : std::string(otherwise));
}

}  // namespace thole::cli
