#include "plan/job/sweep.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/job/sweep_template.hpp"

namespace thole::plan {

using model::GridVariable;
using model::most_tasks;
using model::Range;

namespace {

constexpr std::size_t most_named = 100'000;  // values that are kept one by one

[[noreturn]] void refuse(std::string_view text, const std::string& why,
                         std::string hint = "such as: lr=1e-3,1e-4 or seed=0..4") {
  throw Error(ErrorCode::usage, fmt::format("grid \"{}\": {}", printable(text, 60), why)).hint(std::move(hint));
}

[[noreturn]] void too_many() {
  throw Error(ErrorCode::usage, fmt::format("more than {} tasks", most_tasks)).hint("submit it as several jobs");
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr std::int64_t most = 1'000'000'000'000'000;  // sums of these cannot overflow
  if (error != std::errc() || end != text.data() + text.size() || value > most || value < -most) return std::nullopt;
  return value;
}

std::uint64_t size_of(const Range& range) { return static_cast<std::uint64_t>((range.last - range.first) / range.step) + 1; }

std::int64_t value_of(const Range& range, std::uint64_t index) {
  return range.first + static_cast<std::int64_t>(index) * range.step;
}

std::uint64_t size_of(const GridVariable& variable) {
  return variable.range ? size_of(*variable.range) : variable.values.size();
}

std::string value_of(const GridVariable& variable, std::uint64_t index) {
  return variable.range ? std::to_string(value_of(*variable.range, index)) : variable.values.at(index);
}

// A range with the width that its values are padded to: that of an end typed with leading zeros.
struct TypedRange {
  Range range;
  std::size_t digits = 0;

  std::string value(std::uint64_t index) const {
    const std::int64_t value = value_of(range, index);
    const std::string text = std::to_string(value < 0 ? -value : value);
    return (value < 0 ? "-" : "") + std::string(text.size() < digits ? digits - text.size() : 0, '0') + text;
  }
};

std::size_t digits_of(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text.front() == '0' ? text.size() : 0;
}

TypedRange range_between(std::string_view first, std::string_view last, std::int64_t step) {
  const std::int64_t from = *whole(first), to = *whole(last);
  return {{from, to, from <= to ? step : -step}, std::max(digits_of(first), digits_of(last))};
}

// "0..4" and "0..100..10"; a word such as "../2" is none, but "0.1..0.5" is one that cannot be meant otherwise.
std::optional<TypedRange> parse_range(std::string_view text, std::string_view all) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos || text.find_first_not_of("0123456789.+-eE") != std::string_view::npos)
    return std::nullopt;
  const std::string_view first = text.substr(0, dots);
  if (first.find_first_of("0123456789") == std::string_view::npos) return std::nullopt;
  std::string_view last = text.substr(dots + 2);
  std::int64_t step = 1;
  if (const std::size_t more = last.find(".."); more != std::string_view::npos) {
    const auto typed = whole(last.substr(more + 2));
    if (!typed || *typed <= 0) refuse(all, "the step of a range is a whole number above 0", "such as: k=0..100..10");
    step = *typed;
    last = last.substr(0, more);
  }
  if (!whole(first) || !whole(last)) refuse(all, "a range counts whole numbers", "name the values: lr=0.1,0.2,0.5");
  return range_between(first, last, step);
}

// One value in double quotes, which may hold commas; a quote within it is doubled.
std::string take_quoted(std::string_view& rest, std::string_view all) {
  std::string value;
  rest.remove_prefix(1);
  for (;;) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) refuse(all, "a quote is not closed");
    value += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) break;
    value += '"';
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest.front() != ',') refuse(all, "a comma belongs after a closing quote");
  return value;
}

// Adds the values of a range to a variable. A range that stands alone stays one.
void add_range(GridVariable& variable, const TypedRange& typed, bool alone) {
  if (size_of(typed.range) > most_tasks) too_many();
  if (alone && typed.digits == 0) {
    variable.range = typed.range;
    return;
  }
  if (size_of(typed.range) + variable.values.size() > most_named)
    throw Error(ErrorCode::usage, fmt::format("more than {} values of {} one by one", most_named, variable.name))
        .hint("a single range without leading zeros may be longer");
  for (std::uint64_t i = 0; i < size_of(typed.range); ++i) variable.values.push_back(typed.value(i));
}

}  // namespace

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
  });
}

bool is_reserved_name(std::string_view name) { return name == "job" || name == "task" || name == "index" || name == "line"; }

GridVariable parse_grid(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse(text, "expected NAME=VALUES");
  GridVariable variable;
  variable.name = text.substr(0, equals);
  if (!is_variable_name(variable.name))
    refuse(text, variable.name.empty() ? "a name is missing before =" : "that is no name of a variable",
           "a name is a letter or _, then letters, digits and _.-");
  if (is_reserved_name(variable.name))
    refuse(text, fmt::format("{{{}}} has a meaning already", variable.name), "choose another name");
  std::string_view rest = text.substr(equals + 1);
  if (rest.empty()) refuse(text, fmt::format("{} has no values", variable.name));
  for (;;) {
    if (rest.starts_with('"')) {
      variable.values.push_back(take_quoted(rest, text));
    } else {
      const std::string_view word = rest.substr(0, rest.find(','));
      const bool alone = variable.values.empty() && word.size() == rest.size();
      rest.remove_prefix(word.size());
      if (const auto range = parse_range(word, text)) add_range(variable, *range, alone);
      else variable.values.emplace_back(word);
    }
    if (rest.empty()) return variable;
    rest.remove_prefix(1);  // the comma; nothing before the next one is an empty value
    if (rest.empty())       // "a=1,2," and "a=1, 2" are slips of the hand
      refuse(text, "a comma at its end", fmt::format("without blanks: {0}=1,2; an empty value at the end is \"\": {0}=1,\"\"",
                                                     variable.name));
  }
}

ArrayWord parse_array(std::string_view text) {
  const auto bad = [text](const std::string& why) {
    return Error(ErrorCode::usage, fmt::format("array \"{}\": {}", printable(text, 60), why))
        .hint("such as: 0-99, 1-10:3, 1,5,7-9 or 0-99%4");
  };
  ArrayWord word;
  word.index.name = "index";
  std::string_view rest = text;
  if (const std::size_t percent = rest.find('%'); percent != std::string_view::npos) {
    word.at_most = parse_u64(rest.substr(percent + 1));
    if (!word.at_most || *word.at_most == 0) throw bad("expected a number above 0 after %");
    rest = rest.substr(0, percent);
  }
  const bool alone = rest.find(',') == std::string_view::npos;
  for (std::string_view piece : split(rest, ',')) {
    std::optional<std::uint64_t> step = 1;
    if (const std::size_t colon = piece.find(':'); colon != std::string_view::npos) {
      step = parse_u64(piece.substr(colon + 1));
      if (!step || *step == 0 || *step > most_tasks) throw bad("the step of a range is a whole number above 0");
      piece = piece.substr(0, colon);
    }
    const std::size_t dash = piece.find('-');
    const std::string_view first = piece.substr(0, dash),
                           last = dash == std::string_view::npos ? first : piece.substr(dash + 1);
    if (!parse_u64(first) || !parse_u64(last) || !whole(first) || !whole(last))
      throw bad("expected whole numbers and ranges of them");
    if (*whole(first) > *whole(last)) throw bad(fmt::format("{} comes after {}", first, last));
    add_range(word.index, range_between(first, last, static_cast<std::int64_t>(*step)), alone);
  }
  return word;
}

std::uint64_t tasks_of(const model::Sweep& sweep, std::uint64_t items) {
  std::vector<std::string> names = sweep.columns;
  std::uint64_t tasks = items;
  for (const GridVariable& variable : sweep.grid) {
    if (std::find(names.begin(), names.end(), variable.name) != names.end())
      throw Error(ErrorCode::usage, fmt::format("the variable {} is given twice", variable.name))
          .hint(fmt::format("all its values in one: {}=…,…", variable.name));
    names.push_back(variable.name);
    const std::uint64_t size = size_of(variable);
    if (size == 0 || tasks > most_tasks / size) too_many();
    tasks *= size;
  }
  if (tasks > most_tasks) too_many();
  return tasks;
}

std::uint64_t item_of(const model::Sweep& sweep, model::TaskIndex task) {
  for (const GridVariable& variable : sweep.grid) task /= size_of(variable);
  return task;
}

std::map<std::string, std::string> task_values(const model::Sweep& sweep, model::JobId job, model::TaskIndex task,
                                               const std::vector<std::string>& cells) {
  std::map<std::string, std::string> values{
      {"job", std::to_string(job)}, {"task", fmt::format("{}.{}", job, task)}, {"index", std::to_string(task)}};
  for (std::size_t i = 0; i < sweep.columns.size() && i < cells.size(); ++i) values[sweep.columns[i]] = cells[i];
  for (auto variable = sweep.grid.rbegin(); variable != sweep.grid.rend(); ++variable) {
    values[variable->name] = value_of(*variable, task % size_of(*variable));
    task /= size_of(*variable);
  }
  return values;
}

std::vector<std::string> task_command(const model::JobSpec& spec, model::JobId job, model::TaskIndex task,
                                      const std::vector<std::string>& cells) {
  if (spec.sweep == model::Sweep{}) return spec.argv;
  const auto values = task_values(spec.sweep, job, task, cells);
  return fill(spec.argv, [&](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name.empty() ? "line" : std::string(name));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

void check_command(model::JobSpec& spec) {
  if (spec.sweep == model::Sweep{}) return;
  std::set<std::string> known{"job", "task", "index"};
  known.insert(spec.sweep.columns.begin(), spec.sweep.columns.end());
  for (const GridVariable& variable : spec.sweep.grid) known.insert(variable.name);
  check_fields(spec.argv, known);
  const auto named = fields_in(spec.argv);
  if (known.contains("line") && !named.contains("line") && !named.contains("")) spec.argv.emplace_back("{}");
}

}  // namespace thole::plan
