// The table of commands and options: parsing, help, completion, man pages and docs/commands.md are all made from it.
//
// How to add an option: one row beside the others of its verb (cli/verbs), or of the group that verbs share (request.hpp,
// binding.hpp, table.cpp), and one field in what it sets. How to add a verb: a file in cli/verbs that ends with its row, and a
// line in cli/verbs/list.cpp (docs/contributing-examples.md). The rows are constant data; nothing is built at start.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cli/line/invocation.hpp"

namespace thole::cli {

struct Context;

// What completion offers for a value or a word.
enum class Offer { nothing, files, directories, gpus, models, machines, claims, groups, choices, command, jobs, kernels };

// One value as typed, with the option it belongs to, for messages.
struct Word {
  std::string_view option;  // "--gpus" or "-g", as typed
  std::string_view text;
};

// What an option does: a lambda that gets the part of the line that it is about. `[](model::Request& r, const Word& w) {...}`
// is of the request; a struct that the line does not know holds the verb's own options.
class Setter {
 public:
  template <class Set>
  constexpr Setter(Set set) : Setter(set, &Set::operator()) {}

  void operator()(Invocation& line, const Word& word) const { set_(line, word); }

 private:
  template <class Set, class Part>
  constexpr Setter(Set, void (Set::*)(Part&, const Word&) const)
      : set_([](Invocation& line, const Word& word) { Set{}(part<Part>(line), word); }) {}

  template <class Part>
  static Part& part(Invocation& line) {
    if constexpr (std::is_same_v<Part, Invocation>) return line;
    else if constexpr (std::is_same_v<Part, Globals>) return line.global;
    else if constexpr (std::is_same_v<Part, model::Request>) return line.request;
    else if constexpr (std::is_same_v<Part, model::BindWishes>) return line.binding;
    else return line.own.as<Part>();
  }

  void (*set_)(Invocation&, const Word&);
};

struct Option {
  char letter = 0;         // 0: none
  std::string_view name;   // without the dashes
  std::string_view value;  // what help calls its value; "" = a flag
  std::string_view help;
  Setter set;
  Offer offer = Offer::nothing;
  std::string_view choices = {};                            // "none|mine|any" for Offer::choices
  bool (*optional_value)(std::string_view next) = nullptr;  // the value may be left out; does the next word belong to it?
  bool whole_seconds = false;                               // of its time; what is rounded up is told
};

constexpr Option in_whole_seconds(Option row) {
  row.whole_seconds = true;
  return row;
}

struct Example {
  std::string_view line, says;
};

// What stdout is for while stderr has the events of --json: what an error is to be on stdout then.
enum class Stdout { document, lines, of_the_command };

struct Verb {
  std::string_view name;
  std::string_view group = {};            // heading in --help; "" = hidden machinery
  std::string_view summary = {};          // one line, lower case
  std::string_view operands = {};         // "[GPU...]"
  std::span<const Option> options = {};   // its own …
  std::span<const Option> request = {};   // … the words of a request, where it takes them …
  std::span<const Option> binding = {};   // … and how its processes are bound, where it starts or binds some
  std::span<const Example> examples = {};
  Offer offer = Offer::nothing;  // what its words are (its first, where `operands` begins with "a|b|…", is one of those);
                                 // `command` ends the options at the first word
  std::size_t min_words = 0, max_words = 0;
  std::string_view instead_of_words = {};          // where somebody gives it words that it does not take
  bool raw = false;                                // machinery: every word after the verb is its own
  void (*check)(const Invocation&) = nullptr;      // throws Error(usage) on what is contradictory

  // What it is, for a program that reads its streams.
  bool (*tells_events)(const Invocation&) = nullptr;   // on stderr under --json, one JSON object a line (docs/json.md)
  Stdout standard_output = Stdout::document;
  bool (*is_for_eval)(const Invocation&) = nullptr;    // what it prints are lines for a shell

  bool goes_on_anyway = false;                     // with a mistaken configuration, with too few descriptors: it tells them

  // What runs it, to the exit status; throws Error. One of the two: machinery goes without a configuration and a machine.
  int (*run)(Context&) = nullptr;
  int (*run_alone)(const Invocation&) = nullptr;
};

// In the order of --help, hidden ones too (verbs/list.cpp).
std::span<const std::reference_wrapper<const Verb>> verbs();
std::span<const Option> global_options();
const Verb* find_verb(std::string_view name);

// Every option a verb understands: its own, the request's, the global ones.
std::vector<const Option*> options_of(const Verb& verb);

}  // namespace thole::cli
