#include "cli/line/submit_wish.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>

#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/soft_limits.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "cli/line/job_file.hpp"
#include "cli/line/parse.hpp"
#include "cli/line/queue_words.hpp"
#include "cli/lost_input.hpp"

namespace thole::cli {

namespace {

constexpr std::size_t most_of_script = 1 << 20;  // directives stand at the top
constexpr std::size_t most_of_input = 1 << 30;

std::string read_input(const Context& context, const std::string& path, std::string_view what) {
  if (path == "-" && is_terminal(STDIN_FILENO))
    context.note(fmt::format("reading {} from the terminal; Ctrl-D ends {}", what, what == "lines" ? "them" : "it"));
  const Fd file(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw Error(ErrorCode::usage, "cannot read").about(path).because(errno);
  std::optional<std::string> text = await_all(file.get(), most_of_input + 1);
  if (!text) throw Error(ErrorCode::usage, "cannot read").about(path).because(errno);
  if (text->size() > most_of_input) throw Error(ErrorCode::usage, "more than 1 GiB").about(path);
  return *std::move(text);
}

std::string shown_name(const std::string& path) { return path == "-" ? "standard input" : path; }

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

bool is_on_path(const Context& context, const std::string& program) {
  const auto& environment = context.wire.settings().environment;
  const auto path = environment.find("PATH");
  const std::string_view folders = path == environment.end() ? std::string_view("/bin:/usr/bin") : path->second;
  for (std::string_view directory : split(folders, ':')) {
    const std::string file = std::string(directory.empty() ? "." : directory) + "/" + program;
    if (may_execute(file) && is_file(file)) return true;
  }
  return false;
}

// The script that a command runs, as named from `directory`: its first word, or that of an interpreter.
std::optional<std::string> script_of(const Context& context, std::vector<std::string>& command, const std::string& directory) {
  const auto from_there = [&](const std::string& name) {
    return name.starts_with('/') || directory.empty() ? name : directory + "/" + name;
  };
  if (const auto script = plan::script_in(command))
    return is_file(from_there(*script)) ? std::optional(from_there(*script)) : std::nullopt;
  std::string& program = command.front();
  if (program.find('/') != std::string::npos)
    return is_file(from_there(program)) ? std::optional(from_there(program)) : std::nullopt;
  if (plan::is_interpreter(program)) return std::nullopt;
  if (!is_file(from_there(program)) || is_on_path(context, program)) return std::nullopt;
  program = "./" + program;                      // as sbatch takes a script by its name
  return from_there(program);
}

Invocation reparse(const Context& context, const std::vector<std::string>& words) {
  std::vector<std::string_view> views{"submit"};
  views.insert(views.end(), words.begin(), words.end());
  return parse(views, context.config.request);
}

// The options that a script states for itself, each line checked so that a mistake can be placed.
std::vector<std::string> options_in(const Context& context, const std::string& script) {
  const Fd file(::open(script.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};                          // exec will say what is wrong with it
  std::string text;
  char piece[16384];
  for (ssize_t got; text.size() < most_of_script && (got = ::read(file.get(), piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<std::size_t>(got));
    if (text.find('\0') != std::string::npos) break;   // a program, or data behind a script
  }
  std::vector<std::string> options;
  for (const plan::Directive& directive : plan::read_directives(text, script)) {
    try {
      std::vector<std::string> alone{"--help"};  // what is incomplete may be completed by the next line
      alone.insert(alone.end(), directive.words.begin(), directive.words.end());
      const Invocation read = reparse(context, alone);
      if (!read.words.empty())
        throw Error(ErrorCode::usage, fmt::format("\"{}\" is no option", printable(read.words.front(), 60)))
            .hint("#THOLE lines hold options only");
      for (const std::string_view option : std::span(read.options).subspan(1))
        if (!is_of_job(option))
          throw Error(ErrorCode::usage, fmt::format("--{} is about one call of thole, not about the job", option))
              .hint("say it on the command line");
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}:{}: {}", printable(script), directive.line, error.what())).hint(error.hint());
    }
    options.insert(options.end(), directive.words.begin(), directive.words.end());
  }
  return options;
}

// The present value can be read only by setting it.
mode_t present_umask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

std::string working_directory(const SubmitOptions& options) {
  std::error_code problem;
  const std::filesystem::path directory = options.directory.empty() ? std::filesystem::current_path(problem)
                                                                    : std::filesystem::absolute(options.directory, problem);
  if (problem) throw Error(ErrorCode::unavailable, "the working directory cannot be used").because(problem.value());
  const bool there = std::filesystem::is_directory(directory, problem);
  if (!there && (!problem || says_absent(problem.value())))
    throw Error(ErrorCode::usage, "no such directory").about(directory.string());
  if (!there || !may_execute(directory))   // said now, and not when its turn comes
    throw Error(ErrorCode::unavailable, "cannot enter the working directory").about(directory.string())
        .because(there ? errno : problem.value());
  return directory.lexically_normal().string();
}

app::SubmitWish wish_of(const Context& context, const Invocation& line) {
  const SubmitOptions& options = line.own.as<SubmitOptions>();
  app::SubmitWish wish;
  wish.spec = options.spec;
  wish.spec.argv = line.words;
  wish.spec.request = line.request;
  wish.spec.request.wait.reset();                // a job waits in the queue as long as it takes
  wish.spec.bind = line.binding.over(context.config.binding.over(model::BindOptions::for_command()));
  wish.spec.ids = line.ids.empty() ? context.config.ids : line.ids;
  if (wish.spec.ids.empty()) wish.spec.ids = "auto";
  wish.spec.directory = working_directory(options);
  wish.spec.umask = present_umask();
  wish.spec.limits = as_words(soft_limits());
  wish.terms = options.terms;
  wish.terms.time = line.request.time;
  const WallTime now = context.wire.clock().wall();
  if (!options.begin.empty()) wish.terms.begin = begin_of({"--begin", options.begin}, now);
  if (wish.terms.begin && *wish.terms.begin < now)
    context.note(fmt::format("--begin {} has passed: nothing waits for it", format_local(*wish.terms.begin, now)));
  wish.grid = options.grid;
  wish.array = options.array;
  wish.after = options.after;
  wish.env = options.env;
  if (!options.csv.empty()) wish.csv = {shown_name(options.csv), read_input(context, options.csv, "the table")};
  if (!options.lines.empty()) wish.lines = {shown_name(options.lines), read_input(context, options.lines, "lines")};
  wish.if_absent = options.if_absent;
  wish.snapshot = options.snapshot;
  return wish;
}

app::SubmitWish from_line(const Context& context) {
  const Invocation& typed = context.invocation;
  std::vector<std::string> command = typed.words;
  const auto script = script_of(context, command, typed.own.as<SubmitOptions>().directory);
  std::vector<std::string> words = script ? options_in(context, *script) : std::vector<std::string>();
  words.insert(words.end(), typed.typed.begin(), typed.typed.end());
  Invocation line = reparse(context, words);
  line.words = command;
  return wish_of(context, line);
}

std::vector<app::SubmitWish> from_file(const Context& context) {
  const Invocation& typed = context.invocation;
  if (!typed.words.empty()) throw Error(ErrorCode::usage, "submit: a command and --file exclude each other");
  const std::string& path = typed.own.as<SubmitOptions>().file;
  std::vector<app::SubmitWish> wishes;
  for (const FileJob& job : read_job_file(read_input(context, path, "the file of jobs"), shown_name(path))) {
    std::vector<std::string> words = job.options;
    words.insert(words.end(), typed.typed.begin(), typed.typed.end());
    words.emplace_back("--");
    words.insert(words.end(), job.command.begin(), job.command.end());
    try {
      wishes.push_back(wish_of(context, reparse(context, words)));
    } catch (const Error& error) {
      throw Error(error.code(), job.about + ": " + error.what()).about(error.object()).hint(error.hint());
    }
    wishes.back().about = job.about;
  }
  return wishes;
}

}  // namespace

std::vector<app::SubmitWish> submit_wishes(const Context& context) {
  if (!context.invocation.own.as<SubmitOptions>().file.empty()) return from_file(context);
  if (context.invocation.words.empty())
    throw Error(ErrorCode::usage, "submit: COMMAND or --file missing")
        .hint(may_be_given_input() ? "a script is not read from stdin: save it, and thole submit ./SCRIPT"
                              : fmt::format("such as: {}", find_verb("submit")->examples.front().line));
  return {from_line(context)};
}

}  // namespace thole::cli
