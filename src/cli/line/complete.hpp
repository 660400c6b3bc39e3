// What completion offers at the end of an unfinished line. The shells' scripts are a few lines that ask this.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line/table.hpp"

namespace thole::cli {

// Where an unfinished line stands: what kind of thing comes next, and the part of it that is typed.
struct Unfinished {
  const Verb* verb = nullptr;    // null: still before the verb
  Offer offer = Offer::nothing;  // of the word that is being typed
  bool option = false;           // an option's name may come
  bool verb_next = false;        // a verb may come
  std::string_view choices;      // for Offer::choices
  std::string_view first;        // the verb's first word, where that is typed already
  std::string_view before;       // "--gpus=", "0,3,": kept in front of each candidate
  std::string_view typed;        // what candidates must begin with
  std::size_t command = 0;       // Offer::command: index of the word at which the command begins
};

// `words`: all after the program's name, the last one unfinished (perhaps "").
Unfinished look_at(std::span<const std::string_view> words);

struct Candidate {
  std::string text;
  std::string says;  // "" = nothing
};

// What the table alone knows: verbs, options, choices. Sorted as in the table.
std::vector<Candidate> candidates(const Unfinished& line);

// The script for "bash", "zsh" or "fish"; "" for another.
std::string_view completion_script(std::string_view shell);

}  // namespace thole::cli
