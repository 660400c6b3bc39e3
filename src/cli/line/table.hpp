// The table of commands and options: parsing, help, completion, man pages and docs/commands.md are all made from it.
//
// To add an option: one row in table.cpp and one field in invocation.hpp. The rows are constant data; nothing is built at
// start.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line/invocation.hpp"

namespace thole::cli {

// What completion offers for a value or a word.
enum class Offer { nothing, files, directories, gpus, models, machines, claims, groups, choices, command, jobs, kernels };

// One value as typed, with the option it belongs to, for messages.
struct Word {
  std::string_view option;  // "--gpus" or "-g", as typed
  std::string_view text;
};

struct Option {
  char letter = 0;         // 0: none
  std::string_view name;   // without the dashes
  std::string_view value;  // what help calls its value; "" = a flag
  std::string_view help;
  void (*set)(Invocation&, const Word&);
  Offer offer = Offer::nothing;
  std::string_view choices = {};                            // "none|mine|any" for Offer::choices
  bool (*optional_value)(std::string_view next) = nullptr;  // the value may be left out; does the next word belong to it?
};

struct Example {
  std::string_view line, says;
};

struct Verb {
  std::string_view name;
  std::string_view group;           // heading in --help; "" = hidden machinery
  std::string_view summary;         // one line, lower case
  std::string_view operands;        // "[GPU...]"
  std::span<const Option> own;      // its own options …
  std::span<const Option> request;  // … and the words of a request, where it takes them
  std::span<const Example> examples;
  Offer offer = Offer::nothing;  // what its words are (its first, where `operands` begins with "a|b|…", is one of those);
                                 // `command` ends the options at the first word
  std::size_t min_words = 0, max_words = 0;
  bool raw = false;  // machinery: every word after the verb is its own
  std::span<const Option> binding = {};  // how its processes are bound, where it starts or binds some
};

std::span<const Verb> verbs();
std::span<const Option> global_options();
const Verb* find_verb(std::string_view name);  // hidden ones too

// Every option a verb understands: its own, the request's, the global ones.
std::vector<const Option*> options_of(const Verb& verb);

}  // namespace thole::cli
