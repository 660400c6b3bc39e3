#include "cli/line/foreign.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"

namespace thole::cli {

namespace {

constexpr std::uint64_t most_in_a_range = 4096;

// How many GPUs "0,1" or "0-3" names; nothing where a piece is no number.
std::optional<std::uint64_t> how_many(std::string_view list) {
  std::uint64_t count = 0;
  for (const std::string_view piece : split(list, ',')) {
    const std::size_t dash = piece.find('-');
    const auto first = parse_u64(piece.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_u64(piece.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first >= most_in_a_range) return std::nullopt;
    count += *last - *first + 1;
  }
  return count;
}

constexpr std::string_view by_number[] = {"--gpu",    "--gpu-id", "--gpu-ids", "--gpu_id",
                                          "--gpu_ids", "--device", "--devices"};

constexpr std::string_view a_count = "how many GPUs: -g N";
constexpr std::string_view a_count_or_map = "how many GPUs: -g N; the same command many times: thole map";
constexpr std::string_view near_cpus = "the CPUs next to the GPUs come by themselves; others: --bind MODE";
constexpr std::string_view no_partitions = "there are no partitions: --model, --memory and --on choose GPUs";
constexpr std::string_view a_jobs_name = "jobs of the queue have names: thole submit --name NAME";
constexpr std::string_view after_another = "after another job: --after N, or --after N:any whatever becomes of it";
constexpr std::string_view whole_line = "a line for the shell: sh -c 'LINE'";
constexpr std::string_view its_log = "what it prints is kept by itself: thole logs";
constexpr std::string_view a_message = "a command of yours at the end: --notify 'mail -s done NAME'";
constexpr std::string_view all_yours = "these are yours; of others: thole status";

constexpr std::string_view one_rank = "which rank of this machine it is: --local-rank R";

struct ForeignOption { std::string_view verb, option, hint; };   // of every verb: ""; the first row that fits counts
constexpr ForeignOption foreign_options[] = {
    {"bind", "--rank", one_rank},
    {"bind", "--local_rank", one_rank},
    {"jobs", "-n", "the newest stand last: thole jobs | tail; only some: --state, --tag"},
    {"logs", "-n", "the last lines: --lines N"},
    {"logs", "--tail", "the last lines: --lines N"},
    {"map", "-n", "each item is one command's by itself; several columns of it: --csv"},
    {"map", "-P", "how many at once: -j N"},
    {"map", "--max-procs", "how many at once: -j N"},
    {"map", "-I", "{} stands for the item by itself"},
    {"map", "-d", "lines are items, with -0 what ends with a zero byte"},
    {"submit", "--job-name", "its name: --name NAME"},
    {"submit", "-J", "its name: --name NAME"},
    {"submit", "--dependency", after_another},
    {"submit", "-d", after_another},
    {"submit", "--wrap", whole_line},
    {"submit", "--output", its_log},
    {"submit", "-o", its_log},
    {"submit", "--error", its_log},
    {"submit", "-e", its_log},
    {"submit", "--mail-user", a_message},
    {"submit", "--mail-type", a_message},
    {"wait", "-t", "how long to wait: --timeout TIME"},
    {"jobs", "-u", all_yours},
    {"jobs", "--user", all_yours},
    {"edit", "--name", "a job keeps its name; another: thole cancel, thole submit --name NAME"},
    {"", "--gres", "how many GPUs: -g N; of which model: --model A100"},
    {"", "-G", a_count},
    {"", "--num-gpus", a_count},
    {"", "--ngpus", a_count},
    {"", "--gpus-per-node", a_count},
    {"", "--gpus-per-task", a_count},
    {"", "-n", a_count_or_map},
    {"", "--ntasks", a_count_or_map},
    {"", "-N", "a machine has one line of its own, and no nodes to choose; how many GPUs: -g N"},
    {"", "--nodes", "a machine has one line of its own, and no nodes to choose; how many GPUs: -g N"},
    {"", "-c", near_cpus},
    {"", "--cpus", near_cpus},
    {"", "--cpus-per-task", near_cpus},
    {"", "-p", no_partitions},
    {"", "--partition", no_partitions},
    {"", "--name", a_jobs_name},
    {"", "--job-name", a_jobs_name},
    {"", "-J", a_jobs_name},
    {"", "-d", "in the background, to be read later: thole submit"},
    {"", "-i", "GPUs 0 and 1 by their numbers: -g 2 --on 0,1"}};

struct ForeignWord { std::string_view verb, word, hint; };
constexpr ForeignWord operands[] = {
    {"drain", "off", "thole drain --off"},
    {"drain", "on", "thole drain"},
    {"jupyter", "uninstall", "thole jupyter remove NAME"},
    {"jupyter", "delete", "thole jupyter remove NAME"},
    {"jupyter", "rm", "thole jupyter remove NAME"},
    {"jupyter", "add", "thole jupyter install"},
    {"jupyter", "ls", "thole jupyter list"}};

constexpr ForeignWord foreign_verbs[] = {
    {"", "ps", "who has which GPU: thole status; your jobs: thole jobs"},
    {"", "ls", "who has which GPU: thole status; your jobs: thole jobs"},
    {"", "list", "who has which GPU: thole status; their names: thole status --list; your jobs: thole jobs"},
    {"", "show", "who has which GPU: thole status; your jobs: thole jobs"},
    {"", "top", "thole status --watch"},
    {"", "watch", "thole status --watch"},
    {"", "gpus", "thole status --list"},
    {"", "free", "thole status; to let go of a claim: thole release"},
    {"", "queue", "thole jobs"},
    {"", "squeue", "thole jobs"},
    {"", "qstat", "thole jobs"},
    {"", "sinfo", "thole status"},
    {"", "sacct", "thole jobs --all; each task, with what it has used: thole jobs --tasks"},
    {"", "sstat", "thole jobs --tasks"},
    {"", "scontrol", "thole hold, resume, edit; of a job: thole why job N"},
    {"", "salloc", "thole claim --shell, or thole run bash"},
    {"", "log", "thole logs"},
    {"", "tail", "thole logs -f"},
    {"", "kill", "a job: thole cancel; a claim: thole release"},
    {"", "stop", "a job: thole cancel, or thole pause; a claim: thole release"},
    {"", "rm", "a job: thole cancel; a claim: thole release"},
    {"", "del", "a job: thole cancel; a claim: thole release"},
    {"", "scancel", "thole cancel"},
    {"", "sbatch", "thole submit"},
    {"", "add", "thole submit"},
    {"", "srun", "thole run"},
    {"", "exec", "thole run"},
    {"", "lock", "thole claim"},
    {"", "unlock", "thole release"},
    {"", "unclaim", "thole release"},
    {"", "version", "thole --version"}};

}  // namespace

std::optional<std::string> all_of_these(std::string_view list) {
  const auto count = how_many(list);
  if (!count) return std::nullopt;
  return *count == 1 ? fmt::format("--on {}", list) : fmt::format("-g {} --on {}", *count, list);
}

std::optional<std::string> hint_for_verb(std::string_view word) {
  for (const ForeignWord& row : foreign_verbs)
    if (word == row.word) return std::string(row.hint);
  return std::nullopt;
}

// Verbs that look at GPUs name them as plain words.
std::string gpus_as_words(std::string_view verb, std::string_view value) {
  return fmt::format("GPUs by their numbers: thole {} {}", verb, how_many(value) ? value : "0,1");
}

std::optional<std::string> hint_for_option(std::string_view verb, std::string_view option, std::string_view value) {
  const bool by_index = option == "-i" || std::find(std::begin(by_number), std::end(by_number), option) != std::end(by_number);
  if (by_index && (verb == "status" || verb == "why")) return gpus_as_words(verb, value);
  if (std::find(std::begin(by_number), std::end(by_number), option) != std::end(by_number)) {
    const auto these = all_of_these(value);
    if (!these) return "GPU 0 by its number: --on 0; any one that is free: -g 1";
    if (parse_u64(value)) return fmt::format("GPU {} by its number: {}; any one that is free: -g 1", value, *these);
    return fmt::format("these GPUs by their numbers: {}", printable(*these, 60));
  }
  for (const ForeignOption& row : foreign_options)
    if (option == row.option && (row.verb.empty() || verb == row.verb)) return std::string(row.hint);
  return std::nullopt;
}

std::optional<std::string> hint_for_operand(std::string_view verb, std::string_view word) {
  for (const ForeignWord& row : operands)
    if (verb == row.verb && word == row.word) return std::string(row.hint);
  return std::nullopt;
}

}  // namespace thole::cli
