// A text of several lines made safe to print: nothing but the ends of its lines, and the tabs between the columns of a list,
// stays outside of printable().
#pragma once

#include <string>
#include <string_view>

namespace thole {

std::string printable_lines(std::string_view text);   // uncut

// An error's text with its hint, "what: object\n  hint", as part of a sentence: "what: object; hint".
std::string in_one_line(std::string_view text);

}  // namespace thole
