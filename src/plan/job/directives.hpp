// Options written into a script: "#THOLE -g 2 --time 4h" on lines of its own before its first command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thole::plan {

struct Directive {
  unsigned line = 0;
  std::vector<std::string> words;
};

// Only comments and empty lines may stand before them; a #THOLE after the first command would have no effect, so it throws
// Error(usage) with `name`:line. A first line that is no text (a program, not a script) has none.
std::vector<Directive> read_directives(std::string_view script, const std::string& name);

// Words as sh would split them: quotes and backslashes, but nothing is expanded. Throws Error(usage) for an open quote.
std::vector<std::string> split_words(std::string_view text);

}  // namespace thole::plan
