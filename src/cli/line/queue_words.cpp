#include "cli/line/queue_words.hpp"

#include <csignal>
#include <ctime>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/signal_name.hpp"
#include "base/text.hpp"
#include "cli/line/words.hpp"

namespace thole::cli {

namespace {

constexpr int most_priority = 1000;

bool has_digits_only(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

int signal_named(std::string_view name, const Word& word) {
  if (const auto number = parse_u64(name); number && *number > 0 && *number < static_cast<std::uint64_t>(NSIG))
    return static_cast<int>(*number);
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (int signal = 1; signal < NSIG; ++signal)
    if (!name.empty() && name == signal_name(signal)) return signal;
  throw_expected(word, "a signal such as signal:KILL or signal:9");
}

std::pair<int, int> codes_of(std::string_view text, const Word& word) {
  const std::size_t dash = text.find('-');
  const auto first = parse_u64(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_u64(text.substr(dash + 1));
  if (!first || !last || *first > *last || *first == 0 || *last > 255)
    throw_expected(word, "exit codes such as exit:75 or exit:1-9");
  return {static_cast<int>(*first), static_cast<int>(*last)};
}

void add_retry(model::Retry& retry, std::string_view piece, bool& counted, const Word& word) {
  if (has_digits_only(piece)) {
    const auto times = parse_u64(piece);
    if (!times || *times == 0 || *times > 1000) throw_expected(word, "how often again: 1 to 1000");
    retry.times = static_cast<unsigned>(*times);
    counted = true;
  } else if (piece == "fail") {
    retry.any_failure = true;
  } else if (piece == "signal") {
    retry.signals.push_back(0);
  } else if (piece == "oom") {
    retry.gpu_out_of_memory = true;
  } else if (piece == "lost") {
    retry.lost = true;
  } else if (piece.starts_with("exit:")) {
    retry.exit_codes.push_back(codes_of(piece.substr(5), word));
  } else if (piece.starts_with("signal:")) {
    retry.signals.push_back(signal_named(piece.substr(7), word));
  } else {
    throw_unknown(fmt::format("{}:", word.option), piece, {"fail", "exit:CODE", "signal", "signal:NAME", "oom", "lost"},
                  "a number of times, and fail, exit:CODE, signal, signal:NAME, oom or lost");
  }
}

bool read_time(std::string_view text, const char* form, std::tm& into) {
  const std::string copy(text);
  const char* end = ::strptime(copy.c_str(), form, &into);
  return end && *end == '\0';
}

WallTime from_local(std::tm& local) {
  local.tm_isdst = -1;  // whatever holds on that day
  return WallTime(std::chrono::duration_cast<Millis>(Seconds(::mktime(&local))));
}

void check_name(std::string_view option, const std::string& name, std::string_view what) {
  const bool like_number = name.find_first_not_of("0123456789-.") == std::string::npos;
  if (like_number || name == "last" || name == "all" || name == "none" || name.find_first_of(",:@") != std::string::npos ||
      trim(name).size() != name.size())
    throw Error(ErrorCode::usage, fmt::format("{}: {} cannot be the {} of a job", option, in_quotes(name), what))
        .hint(fmt::format("a {} is no number, not \"last\", \"all\" or \"none\", and has no comma, colon or @", what));
  constexpr std::size_t most = 200;
  if (name.size() > most)
    throw Error(ErrorCode::usage, fmt::format("{}: a {} of {} characters", option, what, name.size()))
        .hint(fmt::format("at most {}", most));
}

}  // namespace

std::string job_name_of(const Word& word) {
  std::string name = text_of(word);
  check_name(word.option, name, "name");
  return name;
}

std::optional<Seconds> limit_of(const Word& word) {
  if (word.text == "none") return std::nullopt;
  return run_time_of(word);
}

int priority_of(const Word& word) {
  int priority = 0;
  const char* end = word.text.data() + word.text.size();
  const auto [stop, error] = std::from_chars(word.text.data(), end, priority);
  if (error != std::errc() || stop != end || priority > most_priority || priority < -most_priority)
    throw_expected(word, fmt::format("a number from -{} to {}", most_priority, most_priority));
  return priority;
}

std::string variable_of(const Word& word) {
  const std::size_t equals = word.text.find('=');
  if (equals == 0 || equals == std::string_view::npos) throw_expected(word, "NAME=VALUE");
  return std::string(word.text);
}

void add_words(std::vector<std::string>& words, const Word& word) {
  for (std::string_view piece : split(word.text, ',')) {
    piece = trim(piece);
    if (piece.empty()) throw_expected(word, "words separated by commas");
    if (std::find(words.begin(), words.end(), piece) == words.end()) words.emplace_back(piece);
  }
}

void add_tags(std::vector<std::string>& tags, const Word& word) {
  add_words(tags, word);
  for (const std::string& tag : tags) check_name(word.option, tag, "tag");
}

std::set<model::TaskState> states_of(const Word& word) {
  std::set<model::TaskState> states;
  for (const std::string_view piece : split(word.text, ',')) {
    const auto state = model::parse_task_state(trim(piece));
    if (trim(piece) == "paused")
      throw Error(ErrorCode::usage, fmt::format("{}: paused tasks are running ones", word.option))
          .hint(fmt::format("{} running", word.option));
    if (!state)
      throw_unknown(fmt::format("{}:", word.option), piece,
                    {"queued", "held", "running", "done", "failed", "lost", "cancelled", "skipped"},
                    "queued, held, running, done, failed, lost, cancelled or skipped");
    states.insert(*state);
  }
  return states;
}

model::Retry retry_of(const Word& word, Seconds pause) {
  model::Retry retry;
  retry.pause = pause;
  retry.times = 1;
  bool counted = false;
  for (const std::string_view piece : split(word.text, ',')) add_retry(retry, trim(piece), counted, word);
  const bool after_what =
      retry.any_failure || !retry.exit_codes.empty() || !retry.signals.empty() || retry.gpu_out_of_memory || retry.lost;
  if (counted && !after_what) retry.any_failure = true;
  return retry;
}

WallTime begin_of(const Word& word, WallTime now) {
  if (word.text == "now") return now;
  // 10.30 may be meant as a clock's.
  const bool bare_fraction = word.text.find_first_not_of("0123456789.") == std::string_view::npos && !parse_u64(word.text);
  if (const auto from_now = parse_duration(word.text); from_now && !bare_fraction) return now + *from_now;
  if (const auto instant = parse_iso(word.text)) return *instant;
  const std::time_t seconds = std::chrono::duration_cast<Seconds>(now.time_since_epoch()).count();
  std::tm today{};
  ::localtime_r(&seconds, &today);
  std::tm typed = today;
  typed.tm_sec = 0;
  for (const char* form : {"%H:%M", "%H:%M:%S"}) {
    std::tm clock = typed;
    if (!read_time(word.text, form, clock)) continue;
    std::tm first = clock;                       // mktime sets right an hour that this day has not
    if (const WallTime when = from_local(first); when > now) return when;
    clock.tm_mday = today.tm_mday + 1;
    return from_local(clock);
  }
  for (const char* form : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"}) {
    std::tm day{};
    if (!read_time(word.text, form, day)) continue;
    const int wanted = day.tm_mday;
    const WallTime when = from_local(day);       // 30 February becomes 2 March
    if (day.tm_mday != wanted) throw_expected(word, "a day that there is");
    return when;
  }
  throw_expected(word, "a time such as 22:00, \"2026-11-23 08:00\" or 2h (from now)");
}

}  // namespace thole::cli
