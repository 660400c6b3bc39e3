// Words of other tools, for which the nearest of ours would mislead: what to type here instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace thole::cli {

// Each is asked for what the table does not have, and nothing when it knows no better.
std::optional<std::string> hint_for_verb(std::string_view word);
// `value` is what stood behind the option, whoever it belongs to: "--gpu 0 train.py", "--gpu=0", "--gpu python".
std::optional<std::string> hint_for_option(std::string_view verb, std::string_view option, std::string_view value);
std::optional<std::string> hint_for_operand(std::string_view verb, std::string_view word);

// "-g 2 --on 0,1" for "0,1": --on alone would choose one of them. Nothing where the list is none of GPUs by their numbers.
std::optional<std::string> all_of_these(std::string_view list);

}  // namespace thole::cli
