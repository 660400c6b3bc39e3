#include "host/process/cannot_run.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/starters.hpp"
#include "base/text.hpp"
#include "host/process/first_line.hpp"

namespace thole::host {
namespace {

constexpr int most_nested = 5;   // interpreters that are scripts, to the kernel

// Every program name in the directories of `path`, for a suggestion.
std::vector<std::string> programs_in(const std::string& path) {
  std::vector<std::string> names;
  for (auto piece : split(path, ':')) {
    std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(std::string(piece).c_str()), ::closedir);
    while (directory) {
      const dirent* entry = ::readdir(directory.get());
      if (!entry) break;
      if (entry->d_name[0] != '.' && entry->d_type != DT_DIR) names.emplace_back(entry->d_name);
    }
  }
  return names;
}

// What people type that a shell would have understood, and we do not.
std::string hint_for(const std::string& program, const std::string& there) {
  const std::string word = printable(program, 60);
  const std::size_t blank = program.find(' '), equals = program.find('=');
  if (blank != std::string::npos && blank > 0)
    return fmt::format("it is one word: without the quotes, or sh -c {}", shell_quote(word));
  if (equals != std::string::npos && equals > 0 && program.find('/') > equals)
    return fmt::format("a variable is set by env: env {} COMMAND", word);
  if (program == "source" || program == ".") return fmt::format("{} is a shell's own: bash -c '. FILE && COMMAND …'", word);
  for (const char* builtin : {"cd", "export", "alias", "ulimit", "eval", "exec", "umask"})
    if (program == builtin) return fmt::format("{} is a shell's own: sh -c '{} …'", word, word);
  struct stat found;
  if (program.find('/') != std::string::npos || ::stat(there.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return "";
  return program.ends_with(".py") ? fmt::format("python {}", word) : fmt::format("in this folder: ./{}", word);
}

bool is_directory(const std::string& path) {
  struct stat found;
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

// Whether exec takes a file: 0, or what it would say.
int obstacle_of(const std::string& file) {
  struct stat found;
  if (::stat(file.c_str(), &found) != 0) return errno;
  return S_ISREG(found.st_mode) && may_execute(file) ? 0 : EACCES;
}

// Where a program's name leads.
struct NamedFile {
  std::string file;                              // "" where nothing of that name is
  int obstacle = ENOENT;
};

// As execvpe(3) goes through $PATH, which says "permission denied" also where nothing but a directory of the name is.
NamedFile file_named(const std::string& program, const std::string& cwd, const std::string& path) {
  const auto from_there = [&](const std::string& name) {
    return cwd.empty() || name.starts_with('/') ? name : cwd + "/" + name;
  };
  if (program.find('/') != std::string::npos) return {from_there(program), obstacle_of(from_there(program))};
  NamedFile denied;
  for (std::string_view folder : split(path, ':')) {
    const std::string file = from_there(std::string(folder.empty() ? "." : folder) + "/" + program);
    const int obstacle = obstacle_of(file);
    if (obstacle == 0) return {file, 0};
    if (denied.file.empty() && obstacle == EACCES && !is_directory(file) && ::access(file.c_str(), F_OK) == 0)
      denied = {file, obstacle};
  }
  return denied;
}

// What was probably meant by an interpreter that is not there.
std::string hint_for_line(const FirstLine& line, const std::string& script, const std::string& program,
                          const std::string& path) {
  const bool bare = program.find('/') == program.npos;
  if (line.windows)
    return fmt::format("its lines end as on Windows (\\r): sed -i 's/\\r$//' {}", shell_quote(printable(script)));
  if (program == line.argument && program.find(' ') != program.npos && last_part(line.interpreter) == "env")
    return fmt::format("env takes all of the line for one name: #!{} -S {}", printable(line.interpreter), printable(program));
  if (program == line.interpreter && bare)
    return fmt::format("env looks for it on PATH: #!/usr/bin/env {}", printable(program));
  const auto guess = bare ? nearest(program, programs_in(path)) : std::nullopt;
  return guess ? "did you mean " + printable(*guess) + "?" : "";
}

// The programs that run a script, each started by the one before: its interpreter, and what that starts if it is env or its
// like. As far as can be told.
std::vector<std::string> programs_of(const FirstLine& line, const std::string& script) {
  std::vector<std::string> programs{line.interpreter}, command = programs;
  if (!line.argument.empty()) command.push_back(line.argument);
  command.push_back(script);
  for (auto started = thole::started_by(command); started; started = thole::started_by(started->command)) {
    const std::string& program = started->command.front();
    if (started->other_path || !started->directory.empty() || program == script) break;
    programs.push_back(program);
  }
  return programs;
}

}  // namespace

void refuse_without_interpreter(const std::string& script, const std::string& cwd, const std::string& path) {
  const std::string what = "the interpreter named in the first line of the script ";
  std::string file = script, trail = printable(script);
  for (int nested = 0; nested < most_nested; ++nested) {   // it may be a script itself, which has one
    const std::optional<FirstLine> line = first_line_of(file);
    if (!line) return;
    NamedFile found;
    for (const std::string& program : programs_of(*line, file)) {
      const bool of_kernel = program == line->interpreter && program.find('/') == program.npos;   // which knows no PATH
      found = file_named(of_kernel ? "./" + program : program, cwd, path);
      const std::string about = trail + ": " + printable(program);
      if (found.obstacle == ENOENT)
        throw Error(ErrorCode::not_found, what + "does not exist").about(about).hint(hint_for_line(*line, file, program, path));
      if (found.obstacle != 0)
        throw Error(ErrorCode::not_executable, what + "cannot be run").about(about).because(found.obstacle)
            .hint(is_directory(found.file) ? "it is a directory" : "");
    }
    file = found.file;
    trail += ": " + printable(file);
  }
}

void throw_cannot_run(const std::string& program, const std::string& cwd, const std::string& path, int reason) {
  // The child was in its own directory; this process is not.
  const std::string there = cwd.empty() || program.starts_with('/') ? program : cwd + "/" + program;
  const bool bare = program.find('/') == std::string::npos;
  const NamedFile found = file_named(program, cwd, path);
  if (bare && reason == EACCES && found.file.empty()) reason = ENOENT;
  if (reason != ENOENT && reason != ENOTDIR) {
    Error error = Error(ErrorCode::not_executable, "cannot run").about(printable(program)).because(reason);
    if (!bare && is_directory(there)) throw std::move(error).hint("it is a directory");
    if (found.obstacle == 0) refuse_without_interpreter(found.file, cwd, path);
    struct stat file;
    const bool marked = ::stat(found.file.c_str(), &file) != 0 || (file.st_mode & 0111) != 0;
    if (reason != EACCES || marked) throw error;
    if (!bare && program.ends_with(".py") && !first_line_of(there))
      throw std::move(error).hint("python " + shell_quote(printable(program)));   // marked as a program, sh would read it
    throw std::move(error).hint("is it a program? chmod +x makes it one");
  }
  if (found.obstacle == 0) {
    refuse_without_interpreter(found.file, cwd, path);
    throw Error(ErrorCode::not_found, "the interpreter or the loader that the program names does not exist")
        .about(printable(program));
  }
  const std::string name = program.empty() ? "\"\"" : printable(program);
  Error error = Error(ErrorCode::not_found, "no such command").about(name).because(bare ? 0 : reason);
  if (const std::string better = hint_for(program, there); !better.empty()) throw std::move(error).hint(better);
  auto guess = bare ? nearest(program, programs_in(path)) : std::nullopt;
  if (guess) throw std::move(error).hint("did you mean " + printable(*guess) + "?");
  throw error;
}

}  // namespace thole::host
