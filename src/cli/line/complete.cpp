#include "cli/line/complete.hpp"

#include "base/text.hpp"

namespace thole::cli {

namespace {

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

// The option that a word names, and whether its value is still to come as the next word. Unlike the parser this forgives:
// a line is completed although something before is wrong.
struct NamedOption {
  const Option* option = nullptr;
  bool value_next = false;
};

NamedOption name_of(std::string_view word, const Verb& verb) {
  const bool is_long = word.starts_with("--");
  const std::size_t equals = word.find('=');
  for (const Option* row : options_of(verb)) {
    if (is_long && row->name == word.substr(2, equals == std::string_view::npos ? equals : equals - 2))
      return {row, !row->value.empty() && !row->optional_value && equals == std::string_view::npos};
    if (!is_long && row->letter && word.back() == row->letter && equals == std::string_view::npos)
      return {row, !row->value.empty() && !row->optional_value};
  }
  return {};
}

bool is_list(Offer offer) { return offer == Offer::gpus || offer == Offer::jobs; }

void begin_value(Unfinished& line, const Option& option, std::string_view value, std::string_view before) {
  line.offer = option.offer;
  line.choices = option.choices;
  line.before = before;
  line.typed = value;
  const std::size_t comma = value.rfind(',');
  if (is_list(option.offer) && comma != std::string_view::npos) {  // the last of several GPUs
    line.before = std::string_view(before.data(), before.size() + comma + 1);
    line.typed = value.substr(comma + 1);
  }
}

}  // namespace

Unfinished look_at(std::span<const std::string_view> words) {
  static constexpr Verb no_verb{};
  Unfinished line;
  if (words.empty()) return line;
  const Option* open = nullptr;  // an option that waits for its value
  bool only_words = false;       // after "--"
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string_view word = words[i];
    if (open) {
      open = nullptr;
    } else if (word == "--" && !only_words) {
      only_words = true;
    } else if (is_option(word) && !only_words) {
      const NamedOption named = name_of(word, line.verb ? *line.verb : no_verb);
      if (named.value_next) open = named.option;
    } else if (!line.verb) {
      line.verb = find_verb(word);
      if (!line.verb) return line;
    } else if (line.verb->offer == Offer::command) {
      line.offer = Offer::command;
      line.command = i;
      return line;
    } else if (line.first.empty()) {
      line.first = word;
    }
  }

  const std::string_view last = words.back();
  line.typed = last;
  const std::size_t equals = last.find('=');
  if (open) {
    begin_value(line, *open, last, last.substr(0, 0));
  } else if (last.starts_with("--") && equals != std::string_view::npos && !only_words) {
    if (const Option* option = name_of(last, line.verb ? *line.verb : no_verb).option)
      begin_value(line, *option, last.substr(equals + 1), last.substr(0, equals + 1));
  } else if (last.starts_with('-') && !only_words) {
    line.option = true;
  } else if (!line.verb) {
    line.verb_next = true;
  } else {
    line.offer = line.verb->offer;
    line.command = words.size() - 1;
    const std::string_view first = line.verb->operands.substr(0, line.verb->operands.find(' '));
    if (line.first.empty() && first.find('|') != std::string_view::npos) {
      line.offer = Offer::choices;
      line.choices = first;
    }
    if (const std::size_t comma = last.rfind(','); line.offer == Offer::jobs && comma != std::string_view::npos) {
      line.before = last.substr(0, comma + 1);
      line.typed = last.substr(comma + 1);
    }
  }
  return line;
}

std::vector<Candidate> candidates(const Unfinished& line) {
  static constexpr Verb no_verb{};
  std::vector<Candidate> all;
  const auto add = [&](std::string text, std::string_view says) {
    if (text.starts_with(line.typed)) all.push_back({std::string(line.before) + text, std::string(says)});
  };
  if (line.verb_next)
    for (const Verb& verb : verbs())
      if (!verb.group.empty()) add(std::string(verb.name), verb.summary);
  if (line.option)
    for (const Option* row : options_of(line.verb ? *line.verb : no_verb)) add(fmt::format("--{}", row->name), row->help);
  if (line.offer == Offer::choices)
    for (std::string_view choice : split(line.choices, '|')) add(std::string(choice), "");
  return all;
}

std::string_view completion_script(std::string_view shell) {
  // The first line of the answer says what follows: "words", or that the shell's own completion of files, directories or of the
  // command that begins at word N is wanted. Then one candidate a line, a tab, what it means.
  if (shell == "bash")
    return R"(# bash completion for thole; made by `thole completion bash`
_thole() {
    local line=${COMP_LINE:0:COMP_POINT} answer kind cur candidate i
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    answer=$("${words[0]}" __complete "${words[@]:1}" 2>/dev/null) || return 0
    kind=${answer%%$'\n'*}
    cur=${words[${#words[@]}-1]}
    case $kind in
    files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "${cur##*=}"); return ;;
    directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "${cur##*=}"); return ;;
    command*)
        # The command begins at word N of the line as typed; bash's own words are cut at = and : too.
        local n=$((${kind#command } + 1)) rest=$COMP_LINE typed=0
        for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
            [[ $i -eq 0 || $rest == [[:space:]]* ]] && ((i > 0)) && ((typed++))
            ((typed == n)) && break
            rest=${rest#"${rest%%[![:space:]]*}"}
            rest=${rest#"${COMP_WORDS[i]}"}
        done
        if declare -F _command_offset >/dev/null; then _command_offset "$i"
        elif ((i == COMP_CWORD)); then mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi
        return ;;
    esac
    [[ $answer == *$'\n'* ]] || return 0
    while IFS= read -r candidate; do
        candidate=${candidate%%$'\t'*}
        # bash replaces only what follows the last = or : of the word.
        [[ $cur == *[=:]* ]] && candidate=${candidate#"${cur%"${cur##*[=:]}"}"}
        [[ $candidate == *, || $candidate == *= ]] && compopt -o nospace 2>/dev/null
        COMPREPLY+=("$candidate")
    done <<<"${answer#*$'\n'}"
}
complete -F _thole thole
)";
  if (shell == "zsh")
    return R"(#compdef thole
# zsh completion for thole; made by `thole completion zsh`
_thole() {
    local -a answer offers
    local kind line word says
    answer=("${(@f)$($words[1] __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    kind=$answer[1]
    case $kind in
    files) compset -P '*='; _files; return ;;
    directories) compset -P '*='; _files -/; return ;;
    command*)
        local -i skip=$(( ${kind#command } + 1 ))
        shift $skip words
        (( CURRENT -= skip ))
        _normal
        return ;;
    esac
    for line in "${(@)answer[2,-1]}"; do
        word=${line%%$'\t'*} says=${line#*$'\t'}
        offers+=("${word//:/\\:}${says:+:$says}")
    done
    (( $#offers )) && _describe -V thole offers
}
if [[ $funcstack[1] == _thole ]]; then _thole "$@"; else compdef _thole thole; fi
)";
  if (shell == "fish")
    return R"(# fish completion for thole; made by `thole completion fish`
function __thole_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer ($words[1] __complete $words[2..-1] 2>/dev/null)
    set -l current (commandline -ct)
    switch "$answer[1]"
        case files directories
            __fish_complete_path (string replace -r '^--[^=]*=' '' -- $current)
        case 'command *'
            set -l n (math (string replace 'command ' '' -- $answer[1]) + 2)
            set -l rest (string escape -- $words[$n..-1])
            test (count $words) -ge $n; and test -z "$words[-1]"; and set rest[-1] ''
            complete -C "$rest"
        case '*'
            printf '%s\n' $answer[2..-1]
    end
end
complete -c thole -f -a '(__thole_complete)'
)";
  return "";
}

}  // namespace thole::cli
