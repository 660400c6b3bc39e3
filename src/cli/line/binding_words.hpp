// The words about binding, strictly read; the command line and the configuration share them.
#pragma once

#include <string>
#include <string_view>

#include "cli/line/table.hpp"
#include "model/bind_wishes.hpp"

namespace thole::cli {

// Each throws Error(usage) that quotes the value and says what was expected.
void set_bind_mode(model::BindWishes& wishes, const Word& word);      // "node", "core:4"
void set_memory_policy(model::BindWishes& wishes, const Word& word);  // "bind", "bind:0,2"
void set_threads(model::BindWishes& wishes, const Word& word);        // "8", "auto", "keep"
void set_reserve(model::BindWishes& wishes, const Word& word);        // "0,64", "first-of-l3", "none"

}  // namespace thole::cli
