#include "host/queue/code_copy.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/queue/log_files.hpp"

namespace thole::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class Snapshot : public ::testing::Test {
 protected:
  Snapshot() {
    std::string pattern = fs::temp_directory_path() / "thole_code_XXXXXX";
    root = ::mkdtemp(pattern.data());
    fs::create_directories(root / "code/src");
    write("code/train.py", "one");
    write("code/src/model.py", "two");
    write("code/data.bin", std::string(1000, 'x'));
    fs::create_symlink("train.py", root / "code/link.py");
  }
  ~Snapshot() override { fs::remove_all(root); }

  void write(const std::string& name, const std::string& text) { std::ofstream(root / name) << text; }
  bool git(const std::string& words) {
    const std::string command =
        fmt::format("cd {}/code && GIT_CONFIG_NOSYSTEM=1 HOME={} git {} >/dev/null 2>&1", root.string(), root.string(), words);
    return std::system(command.c_str()) == 0;
  }
  std::set<std::string> files(const std::string& below) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(below))
      if (entry.is_symlink() || !entry.is_directory()) names.insert(entry.path().lexically_relative(below).string());
    return names;
  }
  std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string snapshots() const { return (root / "queue/snapshots").string(); }
  std::string logs() const { return (root / "queue/logs").string(); }
  std::vector<std::string> abandoned() const {
    std::vector<std::string> roots;
    for (const AbandonedCode& one : abandoned_code(snapshots(), logs())) roots.push_back(one.root);
    return roots;
  }

  fs::path root;
};

TEST_F(Snapshot, OutsideOfGitItIsTheWholeDirectory) {
  const CodeCopy copy = copy_code(root / "code", snapshots(), {});
  EXPECT_FALSE(copy.by_git);
  EXPECT_EQ(copy.directory, copy.root);
  EXPECT_EQ(files(copy.root), (std::set<std::string>{"train.py", "src/model.py", "data.bin", "link.py"}));
  EXPECT_TRUE(fs::is_symlink(fs::path(copy.root) / "link.py"));
  write("code/train.py", "edited since");
  EXPECT_EQ(text_of(fs::path(copy.root) / "train.py"), "one");
}

TEST_F(Snapshot, WithinGitItIsWhatGitTracksOrWould) {
  if (!git("init -q")) GTEST_SKIP() << "git is not installed";
  write("code/.gitignore", "data.bin\n");
  ASSERT_TRUE(git("add train.py"));
  write("code/train.py", "changed and not committed");
  const CodeCopy copy = copy_code(root / "code/src", snapshots(), {});
  EXPECT_TRUE(copy.by_git);
  EXPECT_EQ(copy.directory, copy.root + "/src");
  EXPECT_EQ(files(copy.root), (std::set<std::string>{".gitignore", "train.py", "src/model.py", "link.py"}));
  EXPECT_EQ(text_of(fs::path(copy.root) / "train.py"), "changed and not committed");
}

// Ctrl-Z stops nobody there (SpawnTables).
TEST_F(Snapshot, GitHasASessionOfItsOwn) {
  fs::create_directories(root / "bin");
  const fs::path program = root / "bin/git";
  std::ofstream(program) << "#!/bin/sh\ncut -d' ' -f6 /proc/$$/stat > " << (root / "session").string() << "\nexit 1\n";
  fs::permissions(program, fs::perms::owner_all);
  const std::string before = ::getenv("PATH");
  ::setenv("PATH", ((root / "bin").string() + ":" + before).c_str(), 1);
  copy_code(root / "code", snapshots(), {});
  ::setenv("PATH", before.c_str(), 1);
  const auto session = parse_u64(trim(text_of(root / "session")));
  ASSERT_TRUE(session);
  EXPECT_NE(*session, static_cast<std::uint64_t>(::getsid(0)));
}

TEST_F(Snapshot, TooMuchIsRefusedAndLeavesNothing) {
  try {
    copy_code(root / "code", snapshots(), {}, 500);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(error.full().find(".gitignore"), std::string::npos) << error.full();
  }
  EXPECT_TRUE(fs::is_empty(snapshots()));
}

TEST_F(Snapshot, GoesWithTheLogsOfItsJob) {
  const CodeCopy copy = copy_code(root / "code", snapshots(), {});
  give_code(copy.root, logs(), 7);
  remove_logs(logs(), 8);
  EXPECT_TRUE(fs::exists(copy.root));
  remove_logs(logs(), 7);
  EXPECT_FALSE(fs::exists(copy.root));
  EXPECT_TRUE(fs::is_empty(logs()));
}

TEST_F(Snapshot, IsAbandonedWhenItsMakerIsGoneAndNoJobHasIt) {
  CodeCopy one = copy_code(root / "code", snapshots(), {}), other = copy_code(root / "code", snapshots(), {});
  EXPECT_THAT(abandoned(), IsEmpty());
  give_code(one.root, logs(), 7);
  one.lock.reset();
  EXPECT_THAT(abandoned(), IsEmpty());
  other.lock.reset();
  EXPECT_THAT(abandoned(), ElementsAre(other.root));
}

TEST_F(Snapshot, OneThatIsBeingSettledIsSettledByNobodyElse) {
  copy_code(root / "code", snapshots(), {});
  const std::vector<AbandonedCode> first = abandoned_code(snapshots(), logs());
  EXPECT_EQ(first.size(), 1u);
  EXPECT_THAT(abandoned(), IsEmpty());
}

TEST_F(Snapshot, OneWhoseMakerIsKilledInTheMidstIsAbandoned) {
  write("code/large.bin", std::string(64 << 20, 'x'));
  const pid_t maker = ::fork();
  if (maker == 0) {
    const CodeCopy copy = copy_code(root / "code", snapshots(), {});
    ::pause();
  }
  const auto begun = [this] {
    std::error_code not_yet;
    for (const auto& entry : fs::directory_iterator(snapshots(), not_yet))
      if (fs::exists(entry.path() / "large.bin")) return true;
    return false;
  };
  while (!begun() && ::waitpid(maker, nullptr, WNOHANG) == 0) {}
  EXPECT_THAT(abandoned(), IsEmpty());
  ::kill(maker, SIGKILL);
  ::waitpid(maker, nullptr, 0);
  EXPECT_EQ(abandoned().size(), 1u);
}

}  // namespace
}  // namespace thole::host
