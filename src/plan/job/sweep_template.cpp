#include "plan/job/sweep_template.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/job/sweep.hpp"

namespace thole::plan {

namespace {

struct Field {
  std::size_t begin = 0, end = 0;  // of the whole, braces included
  std::string_view name;
  bool escaped = false;            // {{name}}
};

// The next field at or after `from`.
std::optional<Field> next_field(std::string_view word, std::size_t from) {
  for (std::size_t open = word.find('{', from); open != std::string_view::npos; open = word.find('{', open + 1)) {
    const bool doubled = word.substr(open, 2) == "{{";
    const std::size_t begin = open + (doubled ? 2 : 1);
    const std::size_t close = word.find_first_of("{}", begin);
    if (close == std::string_view::npos || word[close] != '}') continue;
    const std::string_view name = word.substr(begin, close - begin);
    if (!name.empty() && !is_variable_name(name)) continue;
    if (!doubled) return Field{open, close + 1, name, false};
    if (word.substr(close, 2) == "}}") return Field{open, close + 2, name, true};
  }
  return std::nullopt;
}

template <class F>
void each_field(std::span<const std::string> words, F&& f) {
  for (const std::string_view word : words)
    for (auto field = next_field(word, 0); field; field = next_field(word, field->end))
      if (!field->escaped) f(field->name);
}

[[noreturn]] void unknown(std::string_view name, const std::set<std::string>& known) {
  std::vector<std::string> names;
  for (const std::string& one : known)
    if (!one.empty()) names.push_back(one);
  const auto near = nearest(name, names);
  std::string hint = near ? fmt::format("did you mean {{{}}}?", *near)
                          : fmt::format("its variables are {}; {{{{{}}}}} passes the braces on", join(names, ", "), name);
  throw Error(ErrorCode::usage, fmt::format("the command says {{{}}}, but the job has no variable of that name", name))
      .hint(std::move(hint));
}

}  // namespace

std::set<std::string> fields_in(std::span<const std::string> words) {
  std::set<std::string> names;
  each_field(words, [&](std::string_view name) { names.emplace(name); });
  return names;
}

void check_fields(std::span<const std::string> words, const std::set<std::string>& known) {
  each_field(words, [&](std::string_view name) {
    if (!name.empty() && !known.contains(std::string(name))) unknown(name, known);
  });
}

std::string fill(std::string_view word, const ValueOf& value) {
  std::string filled;
  std::size_t done = 0;
  for (auto field = next_field(word, 0); field; field = next_field(word, field->end)) {
    filled += word.substr(done, field->begin - done);
    done = field->end;
    if (field->escaped) {
      filled += fmt::format("{{{}}}", field->name);
    } else if (const auto found = value(field->name)) {
      filled += *found;
    } else if (field->name.empty()) {
      filled += "{}";
    } else {
      unknown(field->name, {});
    }
  }
  return filled += word.substr(done);
}

std::vector<std::string> fill(std::span<const std::string> words, const ValueOf& value) {
  std::vector<std::string> filled;
  for (const std::string& word : words) filled.push_back(fill(word, value));
  return filled;
}

}  // namespace thole::plan
