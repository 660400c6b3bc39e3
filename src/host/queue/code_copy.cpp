#include "host/queue/code_copy.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "host/process/spawn_tables.hpp"

extern char** environ;

namespace thole::host {

namespace {

namespace fs = std::filesystem;

std::error_code last_error() { return {errno, std::generic_category()}; }

[[noreturn]] void cannot(const char* what, const fs::path& path, const std::error_code& problem) {
  throw Error(ErrorCode::unavailable, fmt::format("--snapshot: cannot {}", what)).about(path.string()).because(problem.value())
      .hint(problem.value() == ENOSPC || problem.value() == EDQUOT ? "free some space there, then try again" : "");
}

// The output of a command, or nothing when it cannot be run or does not succeed.
std::optional<std::string> output_of(const std::vector<std::string>& words) {
  Pipe pipe = make_pipe();
  SpawnTables tables;
  ::posix_spawn_file_actions_adddup2(&tables.actions, pipe.write.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&tables.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, words.front().c_str(), &tables.actions, &tables.attributes, pointers(words).data(),
                                    environ);
  if (is_want(failed)) throw not_started(words.front(), failed);   // the command may well be there
  if (failed != 0) return std::nullopt;
  pipe.write.reset();
  std::optional<std::string> text = read_all(pipe.read.get(), std::numeric_limits<std::size_t>::max());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::move(text) : std::nullopt;
}

struct Listed {
  fs::path root;
  std::vector<fs::path> files;                   // below root
  bool by_git = false;
};

// Those of `directories` that lie below root, as paths from there.
std::set<fs::path> within(const fs::path& root, const std::vector<std::string>& directories) {
  std::set<fs::path> inside;
  std::error_code problem;
  const fs::path real_root = fs::canonical(root, problem);
  for (const std::string& directory : directories) {
    std::error_code missing;
    const fs::path real = fs::canonical(directory, missing), below = real.lexically_relative(real_root);
    if (!problem && !missing && !below.empty() && below != "." && *below.begin() != "..") inside.insert(below);
  }
  return inside;
}

bool lies_in(const std::set<fs::path>& directories, const fs::path& file) {
  for (fs::path above = file.parent_path(); !directories.empty() && !above.empty(); above = above.parent_path())
    if (directories.contains(above)) return true;
  return false;
}

std::optional<Listed> listed_by_git(const fs::path& from, const std::vector<std::string>& leave_out) {
  const auto root = output_of({"git", "-C", from.string(), "rev-parse", "--show-toplevel"});
  if (!root || trim(*root).empty()) return std::nullopt;
  Listed listed{fs::path(std::string(trim(*root))), {}, true};
  const auto files =
      output_of({"git", "-C", listed.root.string(), "ls-files", "-z", "--cached", "--others", "--exclude-standard"});
  if (!files) return std::nullopt;
  const std::set<fs::path> left_out = within(listed.root, leave_out);
  for (const std::string_view file : split(*files, '\0'))
    if (!file.empty() && !lies_in(left_out, file)) listed.files.emplace_back(file);
  return listed;
}

Listed listed_whole(const fs::path& from, const std::vector<std::string>& leave_out) {
  Listed listed{from, {}, false};
  const std::set<fs::path> left_out = within(from, leave_out);
  std::error_code problem;
  fs::path last = from;                          // which is a directory where the walk cannot go on
  for (auto entry = fs::recursive_directory_iterator(from, problem); !problem && entry != fs::recursive_directory_iterator();
       entry.increment(problem)) {
    last = entry->path();
    const fs::path file = last.lexically_relative(from);
    if (entry->is_symlink() || !entry->is_directory()) listed.files.push_back(file);
    else if (left_out.contains(file)) entry.disable_recursion_pending();
  }
  if (problem) cannot("read", last, problem);
  return listed;
}

class Copier {
 public:
  Copier(CodeCopy& copy, const fs::path& from, std::uint64_t most) : copy_(copy), from_(from), most_(most) {}

  void add(const fs::path& file) {
    const fs::path source = from_ / file, target = fs::path(copy_.root) / file;
    struct stat about {};
    if (::lstat(source.c_str(), &about) != 0) return;   // tracked, and deleted since
    if (!S_ISREG(about.st_mode) && !S_ISLNK(about.st_mode)) return;   // a socket, a FIFO, a submodule's directory
    Fd bytes;
    if (S_ISREG(about.st_mode)) {                // another by now, perhaps: what is open is what counts
      bytes = open_at(AT_FDCWD, source.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
      if (!bytes && (says_absent(errno) || errno == ELOOP)) return;
      if (!bytes || ::fstat(bytes.get(), &about) != 0) cannot("read", source, last_error());
      if (!S_ISREG(about.st_mode)) return;
      must_fit(static_cast<std::uint64_t>(about.st_size));
    }
    std::error_code problem;
    if (!make_directories(target.parent_path(), 0777)) problem = last_error();
    if (!problem && !bytes) fs::copy_symlink(source, target, problem);
    else if (!problem) copy_bytes(bytes.get(), source, target, about.st_mode & 07777);
    if (problem) cannot("write", target, problem);
    ++copy_.files;
    if (bytes) {                                 // build tools and Python's caches go by the time
      const timespec times[] = {about.st_atim, about.st_mtim};
      ::utimensat(AT_FDCWD, target.c_str(), times, AT_SYMLINK_NOFOLLOW);
    }
  }

 private:
  void must_fit(std::uint64_t more) const {
    if (more > most_ - copy_.bytes)
      throw Error(ErrorCode::usage, fmt::format("--snapshot: more than {} to copy", format_mib(most_ >> 20)))
          .about(from_.string())
          .hint(copy_.by_git ? "name data in .gitignore, or keep it elsewhere"
                             : "make it a git repository with data in .gitignore, or submit from the directory of the code");
  }

  // By hand: what std::filesystem says of a full disk is that of a source which cannot be read.
  void copy_bytes(int from, const fs::path& source, const fs::path& target, mode_t mode) {
    const Fd to = create_at(AT_FDCWD, target.c_str(), O_WRONLY | O_EXCL | O_NOFOLLOW, 0600);
    if (!to) cannot("write", target, last_error());
    std::vector<char> part(1 << 16);
    for (ssize_t n; (n = ::read(from, part.data(), part.size())) != 0;) {
      if (n < 0 && errno != EINTR) cannot("read", source, last_error());
      const auto bytes = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
      must_fit(bytes);                           // it may grow meanwhile
      copy_.bytes += bytes;
      if (!write_all(to.get(), {part.data(), bytes})) cannot("write", target, last_error());
    }
    if (::fchmod(to.get(), mode) != 0) cannot("write", target, last_error());
  }

  CodeCopy& copy_;
  const fs::path& from_;
  std::uint64_t most_;
};

Fd locked(const fs::path& directory, int how) {
  Fd fd = open_at(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd && ::flock(fd.get(), how) != 0) fd.reset();
  return fd;
}

// A new directory whose lock is ours. Who looks for abandoned ones stays out until it is.
std::pair<std::string, Fd> begin_copy(const fs::path& snapshots) {
  const Fd alone = locked(snapshots, LOCK_EX);
  std::string pattern = (snapshots / "XXXXXX").string();
  if (!::mkdtemp(pattern.data())) cannot("make", pattern, last_error());
  if (!give_owners_bits(AT_FDCWD, pattern.c_str(), 0700)) cannot("make", pattern, last_error());
  Fd lock = locked(pattern, LOCK_EX | LOCK_NB);
  return {std::move(pattern), std::move(lock)};
}

// Every copy that some job is known to have.
std::set<std::string> given(const fs::path& logs) {
  std::set<std::string> copies;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(logs, ignored))
    if (entry.path().extension() == ".code")
      if (const fs::path copy = fs::read_symlink(entry.path(), ignored); !copy.empty()) copies.insert(copy);
  return copies;
}

}  // namespace

CodeCopy copy_code(const std::string& from, const std::string& snapshots, const std::vector<std::string>& leave_out,
                   std::uint64_t most_bytes) {
  if (!make_directories(snapshots, 0700)) cannot("make", snapshots, last_error());
  CodeCopy copy;
  std::tie(copy.root, copy.lock) = begin_copy(snapshots);
  try {
    const std::optional<Listed> by_git = listed_by_git(from, leave_out);
    const Listed listed = by_git ? *by_git : listed_whole(from, leave_out);
    copy.by_git = listed.by_git;
    Copier copier(copy, listed.root, most_bytes);
    for (const fs::path& file : listed.files) copier.add(file);
    std::error_code problem;
    const fs::path real = fs::canonical(from, problem);
    const fs::path below = (problem ? fs::path(from) : real).lexically_relative(fs::canonical(listed.root, problem));
    copy.directory = below == "." ? copy.root : (fs::path(copy.root) / below).string();
    make_directories(copy.directory, 0777);      // git knows no empty directories
  } catch (...) {
    remove_code(copy.root);
    throw;
  }
  return copy;
}

void remove_code(const std::string& root) {
  std::error_code ignored;
  fs::remove_all(root, ignored);
}

void give_code(const std::string& root, const std::string& logs, model::JobId job) {
  std::error_code problem;
  make_directories(logs, 0700);
  fs::create_symlink(root, fmt::format("{}/{}.code", logs, job), problem);   // without it whoever looks next does this
}

std::vector<AbandonedCode> abandoned_code(const std::string& snapshots, const std::string& logs) {
  std::vector<AbandonedCode> abandoned;
  const Fd nobody_begins = locked(snapshots, LOCK_EX);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored))
    if (Fd lock = locked(entry.path(), LOCK_EX | LOCK_NB)) abandoned.push_back({entry.path(), std::move(lock)});
  if (abandoned.empty()) return abandoned;
  const std::set<std::string> known = given(logs);   // after the locks: a maker gives his copy away before he lets go of it
  std::erase_if(abandoned, [&](const AbandonedCode& one) { return known.contains(one.root); });
  return abandoned;
}

}  // namespace thole::host
