// Commands with fields in them: "--lr={lr}" becomes "--lr=1e-3" when its task starts.
//
// A field is a name in braces, or {} for the item of a job that has lines. {{name}} stands for {name} itself. Braces around
// anything that is no name ('{print $1}', {"json": 1}) are left alone, so most commands need no care.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole::plan {

// Each name once, "" for {}.
std::set<std::string> fields_in(std::span<const std::string> words);

// Throws Error(usage) with the nearest name when the words name a field that is not `known`; {} is always allowed.
void check_fields(std::span<const std::string> words, const std::set<std::string>& known);

// The word with its fields filled. `value` answers with nothing for a name it does not have: then {} stays as it is, for
// commands that know it themselves (find -exec), and any other name throws Error(usage).
using ValueOf = std::function<std::optional<std::string>(std::string_view name)>;
std::string fill(std::string_view word, const ValueOf& value);
std::vector<std::string> fill(std::span<const std::string> words, const ValueOf& value);

}  // namespace thole::plan
