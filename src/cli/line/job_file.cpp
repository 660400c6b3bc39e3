#include "cli/line/job_file.hpp"

#include <algorithm>

#include "app/queue/submit.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "wire/toml.hpp"

namespace thole::cli {

namespace {

using wire::TomlEntry;

constexpr std::string_view not_in_files[] = {"file", "dry-run"};

const Option* option_named(std::string_view name) {
  const Verb& verb = *find_verb("submit");
  if (std::find(std::begin(not_in_files), std::end(not_in_files), name) != std::end(not_in_files)) return nullptr;
  for (std::span<const Option> rows : {verb.options, verb.request, verb.binding})
    for (const Option& row : rows)
      if (row.name == name) return &row;
  return nullptr;
}

std::vector<std::string> known_keys() {
  std::vector<std::string> known{"command"};
  const Verb& verb = *find_verb("submit");
  for (std::span<const Option> rows : {verb.options, verb.request, verb.binding})
    for (const Option& row : rows)
      if (is_of_job(row.name)) known.emplace_back(row.name);
  return known;
}

// A value of a grid as --grid takes it, whatever it holds.
std::string grid_value(const std::string& value) {
  std::string quoted = "\"";
  for (const char c : value) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string grid_word(const std::string& name, const TomlEntry& entry) {
  std::vector<std::string> values = entry.values;
  if (entry.array)
    for (std::string& value : values) value = grid_value(value);
  return "--grid=" + name + "=" + join(values, ",");
}

void add(FileJob& job, const TomlEntry& entry, const std::string& path) {
  const auto where = [&] { return fmt::format("{}:{}:", printable(path), entry.line); };
  if (entry.key == "command") {
    job.command = entry.array ? entry.values : plan::split_words(entry.values.front());
    if (job.command.empty()) throw Error(ErrorCode::usage, where() + " the command is empty");
    return;
  }
  const auto beneath = [&](std::string_view table) { return entry.key.starts_with(table); };
  if (beneath("grid.")) return job.options.push_back(grid_word(entry.key.substr(5), entry));
  if (beneath("env.")) return job.options.push_back("--env=" + entry.key.substr(4) + "=" + join(entry.values, ","));
  const Option* option = option_named(entry.key);
  if (!option)
    throw_unknown(where() + " unknown key", entry.key, known_keys(), "its keys are the options of: thole submit --help");
  if (option->value.empty()) {
    if (entry.array || (entry.values.front() != "true" && entry.values.front() != "false"))
      throw Error(ErrorCode::usage, fmt::format("{} {} is true or false", where(), entry.key));
    if (entry.values.front() == "true") job.options.push_back("--" + entry.key);
    return;
  }
  if (entry.values.empty()) return;              // an empty list says nothing
  if (entry.key == "grid" || entry.key == "env") {
    for (const std::string& value : entry.values) job.options.push_back("--" + entry.key + "=" + value);
    return;
  }
  job.options.push_back("--" + entry.key + "=" + join(entry.values, ","));
}

}  // namespace

bool is_of_job(std::string_view option) { return option_named(option) != nullptr; }

std::vector<FileJob> read_job_file(std::string_view text, const std::string& path) {
  const wire::TomlTables file = wire::read_toml_tables(text, "job", path);
  if (file.tables.empty())
    throw Error(ErrorCode::usage, "no jobs")
        .about(path)
        .hint("such as: [[job]] and below it command = [\"python\", \"train.py\"]");
  std::vector<FileJob> jobs;
  for (const wire::TomlTable& table : file.tables) {
    FileJob job;
    for (const TomlEntry& entry : file.outside) add(job, entry, path);
    std::string name;
    for (const TomlEntry& entry : table.entries) {
      add(job, entry, path);
      if (entry.key == "name" && !entry.values.empty()) name = entry.values.front();
    }
    job.about = fmt::format("{}:{}", printable(path), table.line);
    if (!name.empty()) job.about += fmt::format(" ({})", printable(name, 60));
    if (job.command.empty())
      throw Error(ErrorCode::usage, job.about + ": command is missing").hint("such as: command = [\"python\", \"train.py\"]");
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace thole::cli
