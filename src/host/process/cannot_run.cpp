#include "host/process/cannot_run.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr std::size_t first_line_of_kernel = 256;   // what it reads of a script (BINPRM_BUF_SIZE)

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

// "Permission denied" says execvpe(3) also where nothing but a directory of that name lies on the way.
bool is_denied(const std::string& program, const std::string& path) {
  for (std::string_view folder : split(path, ':')) {
    const std::string there = std::string(folder.empty() ? "." : folder) + "/" + program;
    if (::access(there.c_str(), F_OK) == 0 && !is_directory(there)) return true;
  }
  return false;
}

// The first line of a script, "" of what is none or closed to us.
std::string first_line_of_script(const std::string& path) {
  Fd fd = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  std::string text(first_line_of_kernel, '\0');
  const ssize_t read = fd ? ::pread(fd.get(), text.data(), text.size(), 0) : -1;
  text.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  return text.starts_with("#!") ? text.substr(0, text.find('\n')) : "";
}

}  // namespace

void refuse_without_interpreter(const std::string& path) {
  const std::string line = first_line_of_script(path);
  const std::size_t begin = line.find_first_not_of(" \t", 2);
  if (line.empty() || begin == line.npos || line[begin] != '/') return;
  const std::string interpreter = line.substr(begin, line.find_first_of(" \t", begin) - begin);   // "/bin/sh\r" as it stands
  const bool windows = line.ends_with('\r');
  const bool finds_it = ::access(interpreter.c_str(), F_OK) == 0 || errno != ENOENT;
  const bool asks_for_it = interpreter.ends_with("/env");   // which would look for "python3\r"
  if (finds_it && !(windows && asks_for_it)) return;
  const std::string mend = fmt::format("its lines end as on Windows (\\r): sed -i 's/\\r$//' {}", shell_quote(printable(path)));
  throw Error(ErrorCode::not_found, "the interpreter named in the first line of the script does not exist")
      .about(printable(path) + ": " + printable(interpreter))
      .hint(windows ? mend : "");
}

void throw_cannot_run(const std::string& program, const std::string& cwd, const std::string& path, int reason) {
  // The child was in its own directory; this process is not.
  const std::string there = cwd.empty() || program.starts_with('/') ? program : cwd + "/" + program;
  bool bare = program.find('/') == std::string::npos;
  if (bare && reason == EACCES && !is_denied(program, path)) reason = ENOENT;
  if (reason != ENOENT && reason != ENOTDIR) {
    Error error = Error(ErrorCode::not_executable, "cannot run").about(printable(program)).because(reason);
    if (!bare && is_directory(there)) throw std::move(error).hint("it is a directory");
    if (reason == EACCES && !bare && program.ends_with(".py") && first_line_of_script(there).empty())
      throw std::move(error).hint("python " + shell_quote(printable(program)));   // marked as a program, sh would read it
    if (reason == EACCES) throw std::move(error).hint("is it a program? chmod +x makes it one");
    throw error;
  }
  struct stat found;
  if (!bare && reason == ENOENT && ::stat(there.c_str(), &found) == 0) {
    refuse_without_interpreter(there);
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
