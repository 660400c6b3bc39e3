#include "cli/line/parse.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/line/binding.hpp"
#include "cli/line/foreign.hpp"
#include "cli/line/request.hpp"
#include "cli/line/words.hpp"

namespace thole::cli {

namespace {

class Parser {
 public:
  Parser(std::span<const std::string_view> arguments, const model::Request& defaults) : rest_(arguments) {
    result_.request = defaults;
  }

  Invocation parse() {
    while (!rest_.empty() && !result_.verb) read_before_verb(take());
    if (result_.verb && result_.verb->raw) read_remaining_words();
    while (!rest_.empty()) read_after_verb(take());
    if (!result_.global.help && !result_.global.version) check();
    return std::move(result_);
  }

  // The line has a mistake: what else it says.
  Invocation as_far_as_read() {
    while (!rest_.empty()) {
      try {
        if (result_.verb && result_.verb->raw) read_remaining_words();
        else if (result_.verb) read_after_verb(take());
        else read_before_verb(take());
      } catch (const Error&) {  // told already
      }
    }
    return std::move(result_);
  }

 private:
  std::string_view take() {
    std::string_view word = rest_.front();
    rest_ = rest_.subspan(1);
    return word;
  }

  static bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }
  static bool is_negative_number(std::string_view word) { return word.size() > 1 && word[1] >= '0' && word[1] <= '9'; }

  // A page or an editor has made a dash of a hyphen: pasted, "–g" would be the command to run.
  static void refuse_dash(std::string_view word) {
    for (const std::string_view dash : {"–", "—", "−", "‐", "‑"})
      if (word.starts_with(dash)) {
        std::string_view rest = word;
        while (rest.starts_with(dash)) rest.remove_prefix(dash.size());
        while (rest.starts_with('-')) rest.remove_prefix(1);
        const bool is_word = rest.size() > 1 && rest[1] != '=';
        const std::string meant = std::string(is_word ? "--" : "-") + printable(std::string(rest), 40);
        throw Error(ErrorCode::usage, fmt::format("{} begins with a long dash, not with a hyphen", in_quotes(word)))
            .hint("type it: " + meant);
      }
  }

  void read_before_verb(std::string_view word) {
    refuse_dash(word);
    if (is_option(word) && word != "--") return read_option(word);
    if (word == "help") return read_help();
    result_.verb = find_verb(word);
    if (!result_.verb) throw_unknown_verb(word);
    result_.typed.assign(rest_.begin(), rest_.end());
  }

  // `thole help run` is `thole run --help`.
  void read_help() {
    result_.global.help = true;
    if (rest_.empty()) return;
    const std::string_view word = take();
    result_.verb = find_verb(word);
    if (!result_.verb && !is_option(word)) throw_unknown_verb(word);
    rest_ = {};
  }

  void read_after_verb(std::string_view word) {
    if (word == "--") {
      refuse_option_as_command();
      return read_remaining_words();
    }
    if (is_option(word)) return read_option(word);
    refuse_dash(word);
    result_.words.emplace_back(word);
    if (result_.verb->offer != Offer::command) return;
    if (const auto ours = is_thole(word) ? std::nullopt : own_option_among(rest_))
      result_.remarks.push_back(fmt::format("{} goes to the command; thole's own options stand before it: thole {} {} … {}",
                                            *ours, result_.verb->name, *ours, printable(word, 40)));
    read_remaining_words();
  }

  // What follows is a line of its own, here or on another host.
  static bool is_thole(std::string_view word) { return word.substr(word.find_last_of('/') + 1) == "thole"; }

  // Words after the command are the command's. One that hardly any program but this has, or with a value as only this takes
  // it, was meant for us. Before "--" and after it nobody is in doubt.
  std::optional<std::string> own_option_among(std::span<const std::string_view> words) const {
    static constexpr std::string_view rare[] = {"gpus", "share", "beside", "no-wait", "dry-run", "grid", "array", "at-most",
                                                "if-absent", "trust-claims", "linger", "no-bind", "per-gpu"};
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--" || is_thole(words[i])) break;
      const std::string_view typed = words[i].substr(0, words[i].find('='));
      const std::string_view value = typed.size() < words[i].size() ? words[i].substr(typed.size() + 1)
                                     : i + 1 < words.size()         ? words[i + 1]
                                                                    : std::string_view();
      for (const Option* row : options_of(*result_.verb)) {
        const bool named = typed.starts_with("--") ? typed.substr(2) == row->name
                                                   : typed.size() == 2 && row->letter != 0 && typed[1] == row->letter;
        if (!named || !typed.starts_with('-')) continue;
        const bool time = (row->name == "time" || row->name == "wait") && parse_duration(value) && !parse_u64(value);
        const bool gpus = row->name == "gpus" && parse_u64(value);
        const bool other = typed.starts_with("--") && row->name != "gpus" &&
                           std::find(std::begin(rare), std::end(rare), row->name) != std::end(rare);
        if (time || gpus || other) return std::string(typed);
      }
    }
    return std::nullopt;
  }

  // After "--" comes the command; an option of ours there would be looked for as a program.
  void refuse_option_as_command() const {
    if (result_.verb->offer != Offer::command || !result_.words.empty() || rest_.empty() || !is_option(rest_.front())) return;
    throw Error(ErrorCode::usage, fmt::format("{} stands after --, where the command begins", in_quotes(rest_.front())))
        .hint(fmt::format("thole {} {} … -- COMMAND", result_.verb->name, printable(rest_.front(), 40)));
  }

  void read_remaining_words() {
    result_.words.insert(result_.words.end(), rest_.begin(), rest_.end());
    rest_ = {};
  }

  void read_option(std::string_view word) {
    if (word.starts_with("--")) return read_long(word);
    for (std::size_t at = 1; at < word.size(); ++at) {
      const std::string typed{'-', word[at]};
      std::string_view attached = word.substr(at + 1);
      if (at == 1 && word.size() > 2) refuse_single_hyphen(word);
      const Option& option = find([&](const Option& row) { return row.letter == word[at]; }, typed, attached);
      if (option.value.empty()) {
        set(option, typed, {});
      } else {
        if (attached.starts_with('=')) attached.remove_prefix(1);
        set(option, typed, attached.empty() ? next_value(option, typed) : attached);
        return;
      }
    }
  }

  // `-gpus 2` would be -g with the value "pus".
  void refuse_single_hyphen(std::string_view word) const {
    static constexpr Verb no_verb{};
    const std::string_view name = word.substr(1, word.find('=') == word.npos ? word.npos : word.find('=') - 1);
    for (const Option* row : options_of(result_.verb ? *result_.verb : no_verb))
      if (name.size() > 1 && row->name == name)
        throw Error(ErrorCode::usage, fmt::format("{} begins with one hyphen", in_quotes(word))).hint(fmt::format("-{}", word));
  }

  void read_long(std::string_view word) {
    const std::size_t equals = word.find('=');
    const std::string_view typed = word.substr(0, equals);
    const std::string_view attached = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    const Option& option = find([&](const Option& row) { return row.name == typed.substr(2); }, typed, attached);
    if (option.value.empty()) {
      if (equals != std::string_view::npos)
        throw Error(ErrorCode::usage, fmt::format("{} takes no value, got {}", typed, in_quotes(attached)));
      set(option, typed, {});
    } else if (equals != std::string_view::npos) {
      if (attached.empty()) throw_no_value(option, typed);
      set(option, typed, attached);
    } else {
      set(option, typed, next_value(option, typed));
    }
  }

  std::string_view next_value(const Option& option, std::string_view typed) {
    if (option.optional_value) return !rest_.empty() && option.optional_value(rest_.front()) ? take() : std::string_view{};
    const std::string_view next = rest_.empty() ? std::string_view{} : rest_.front();
    if (next.empty() || (is_option(next) && !is_negative_number(next))) throw_no_value(option, typed);
    return take();
  }

  void set(const Option& option, std::string_view typed, std::string_view value) {
    option.set(result_, {typed, value});
    result_.options.push_back(option.name);
    if (const auto time = parse_duration(value); time && option.whole_seconds && *time % Seconds{1} != Millis{0})
      result_.remarks.push_back(fmt::format("{} {}: {}, for it counts whole seconds", typed, printable(value, 40),
                                            format_duration(std::chrono::ceil<Seconds>(*time))));
    const auto bare = parse_u64(value);   // of what, one could have meant otherwise
    if (!bare || *bare == 0) return;
    if (option.value.find("TIME") != std::string_view::npos)
      result_.remarks.push_back(
          fmt::format("{} {}: {}", typed, *bare, *bare == 1 ? "1 second" : fmt::format("{} seconds", *bare)));
    if (option.value == "SIZE")
      result_.remarks.push_back(fmt::format("{0} {1}: {1} MiB; GiB would be {0} {1}G", typed, *bare));
  }

  template <class Match>
  const Option& find(Match match, std::string_view typed, std::string_view attached) const {
    static constexpr Verb no_verb{};
    for (const Option* row : options_of(result_.verb ? *result_.verb : no_verb))
      if (match(*row)) return *row;
    if (result_.verb) throw_unknown_option(typed, attached);
    throw_before_verb(match, typed, attached);
  }

  [[noreturn]] void throw_unknown_option(std::string_view typed, std::string_view attached) const {
    const std::string_view value = !attached.empty() ? attached : rest_.empty() ? std::string_view() : rest_.front();
    const std::string what = fmt::format("{}: unknown option", result_.verb->name);
    if (const auto hint = hint_for_option(result_.verb->name, typed, value))
      throw Error(ErrorCode::usage, fmt::format("{} {}", what, in_quotes(typed))).hint(*hint);
    std::vector<std::string> known;
    for (const Option* row : options_of(*result_.verb)) known.push_back(fmt::format("--{}", row->name));
    throw_unknown(what, typed, known, fmt::format("see: thole {} --help", result_.verb->name));
  }

  // `thole -g 2 train.py`: the command that was typed, or else meant, comes first.
  template <class Match>
  [[noreturn]] void throw_before_verb(Match match, std::string_view typed, std::string_view attached) const {
    const auto has = [&](const Verb* verb) {
      if (!verb || verb->group.empty()) return false;
      return std::ranges::any_of(options_of(*verb), [&](const Option* row) { return match(*row); });
    };
    const Verb* meant = nullptr;
    for (const std::string_view word : rest_)
      if (!meant && has(find_verb(word))) meant = find_verb(word);
    if (!meant && has(find_verb("run"))) meant = find_verb("run");
    for (const Verb& verb : verbs())
      if (!meant && has(&verb)) meant = &verb;
    if (meant) {
      std::string again = fmt::format("such as: thole {} {}", meant->name, typed);
      const std::string_view value = !attached.empty() ? attached : rest_.empty() ? std::string_view() : rest_.front();
      for (const Option* row : options_of(*meant))
        if (match(*row) && !row->value.empty()) again += fmt::format(" {}", printable(value.empty() ? row->value : value, 40));
      if (meant->offer == Offer::command) again += " …";
      throw Error(ErrorCode::usage, fmt::format("{} belongs after its command", typed)).hint(again);
    }
    if (const auto hint = hint_for_option({}, typed, attached.empty() && !rest_.empty() ? rest_.front() : attached))
      throw Error(ErrorCode::usage, fmt::format("thole: unknown option {}", in_quotes(typed))).hint(*hint);
    std::vector<std::string> known;
    for (const Option& row : global_options()) known.push_back(fmt::format("--{}", row.name));
    throw_unknown("unknown option", typed, known, "see: thole --help");
  }

  [[noreturn]] static void throw_no_value(const Option& option, std::string_view typed) {
    throw Error(ErrorCode::usage, fmt::format("{} needs a value", typed))
        .hint(fmt::format("such as: {} {}", typed, option.value));
  }

  [[noreturn]] static void throw_unknown_verb(std::string_view word) {
    std::vector<std::string> known;
    for (const Verb& verb : verbs())
      if (!verb.group.empty()) known.emplace_back(verb.name);
    if (const auto hint = hint_for_verb(word))
      throw Error(ErrorCode::usage, fmt::format("unknown command {}", in_quotes(word))).hint(*hint);
    known.emplace_back("help");
    throw_unknown("unknown command", word, known, "see: thole --help; to run a program: thole run PROGRAM");
  }

  void check() {
    if (!result_.verb) return;
    const Verb& verb = *result_.verb;
    check_words(verb);
    if (!verb.request.empty()) check_request(result_);
    if (!verb.binding.empty()) check_binding(result_);
    if (verb.check) verb.check(result_);
  }

  void check_words(const Verb& verb) const {
    if (verb.raw) return;
    if (result_.words.size() < verb.min_words)
      throw Error(ErrorCode::usage, fmt::format("{}: {} missing", verb.name, verb.operands))
          .hint(verb.examples.empty() ? fmt::format("see: thole {} --help", verb.name)
                                      : fmt::format("such as: {}", verb.examples.front().line));
    if (result_.words.size() <= verb.max_words) return;
    const std::string word = in_quotes(result_.words[verb.max_words]);
    const auto other = hint_for_operand(verb.name, result_.words[verb.max_words]);
    throw Error(ErrorCode::usage, fmt::format("{}: one word too many, {}", verb.name, word))
        .hint(other                            ? *other
              : !verb.instead_of_words.empty() ? std::string(verb.instead_of_words)
                                               : fmt::format("see: thole {} --help", verb.name));
  }

  std::span<const std::string_view> rest_;
  Invocation result_;
};

}  // namespace

Invocation parse(std::span<const std::string_view> arguments, const model::Request& defaults) {
  return Parser(arguments, defaults).parse();
}

Invocation as_far_as_read(std::span<const std::string_view> arguments) { return Parser(arguments, {}).as_far_as_read(); }

}  // namespace thole::cli
