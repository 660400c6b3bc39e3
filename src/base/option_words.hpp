// Which words of a command line are options of its program, for whoever looks for what stands behind them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole {

// How a program takes its options. Letters: `valued`, whose value is the rest of the word or else the next word; `apart`, the
// next word whatever follows; `attached`, only the rest of the word. `longs` are the long options that stand for one of these
// letters, "signal:s", and those that have none and take a value, "rcfile". Behind one of `last` (`-c CODE`) none is looked
// for.
struct OptionRules {
  std::string_view name, valued = {}, apart = {}, attached = {}, longs = {}, last = {};
  bool of_shell = false;                         // "+x" is one too, and a mere "-" ends them
};

struct OptionWords {
  struct One {
    char letter = 0;
    std::string value;
  };
  std::vector<One> seen;                         // those without a letter are not in it
  bool at_last = false;                          // the last of `seen` is one of the `last`
  std::size_t behind = 0;                        // the first word that belongs to none of them
};

// Those from word `at` on.
OptionWords option_words(std::span<const std::string> command, std::size_t at, const OptionRules& rules);

}  // namespace thole
