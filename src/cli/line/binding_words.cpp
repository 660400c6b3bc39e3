#include "cli/line/binding_words.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/line/words.hpp"

namespace thole::cli {

namespace {

[[noreturn]] void throw_none_of(const Word& word, const std::vector<std::string>& known) {
  throw_unknown(fmt::format("{}:", word.option), word.text, known, fmt::format("one of {}", join(known, ", ")));
}

}  // namespace

void set_bind_mode(model::BindWishes& wishes, const Word& word) {
  constexpr std::string_view cores = "core:";
  if (word.text.starts_with(cores) && !wishes.set_mode(word.text))
    throw_expected({word.option, word.text}, "core:N with N cores of 1 or more");
  if (!wishes.set_mode(word.text)) throw_none_of(word, {"none", "node", "package", "exclusive", "l3", "core:N", "compat"});
}

void set_memory_policy(model::BindWishes& wishes, const Word& word) {
  if (wishes.set_memory(word.text)) return;
  if (parse_size_mib(word.text))                 // --mem was short for --memory elsewhere
    throw Error(ErrorCode::usage, fmt::format("{}: expected a memory policy, got {}", word.option, in_quotes(word.text)))
        .hint(fmt::format("GPU memory is asked for by: --memory {}", printable(word.text, 20)));
  throw_none_of(word, {"first-touch", "preferred", "bind", "interleave", "bind:NODES"});
}

void set_threads(model::BindWishes& wishes, const Word& word) {
  wishes.threads = model::parse_threads(word.text);
  if (!wishes.threads)
    throw Error(ErrorCode::usage,
                fmt::format("{}: expected a number of 1 or more, auto or keep, got {}", word.option, in_quotes(word.text)));
}

void set_reserve(model::BindWishes& wishes, const Word& word) {
  wishes.reserve = model::parse_reserve(word.text);
  if (!wishes.reserve)
    throw Error(ErrorCode::usage,
                fmt::format("{}: expected CPUs such as 0,64-71, first-of-l3 or none, got {}", word.option,
                            in_quotes(word.text)));
}

}  // namespace thole::cli
