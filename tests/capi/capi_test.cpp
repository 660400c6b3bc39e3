// thole.hpp: handles that end themselves, and one exception.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thole/thole.hpp>

namespace {

using namespace std::chrono_literals;

class Cpp : public testing::Test {
 protected:
  Cpp() {
    char name[] = "/tmp/thole-capi-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~Cpp() override { std::filesystem::remove_all(directory_); }
  thole::Machine machine() { return thole::Machine(R"({"machine": "dgx-a100", "state_dir": ")" + directory_ + R"(/state"})"); }

 private:
  std::string directory_;
};

thole_code code_of(thole::Machine& machine, const std::string& request, thole::Patience patience) {
  try {
    machine.claim(request, patience);
  } catch (const thole::Failure& failure) {
    EXPECT_STRNE(failure.what(), "");
    return failure.code();
  }
  return THOLE_OK;
}

TEST_F(Cpp, AClaimEndsWithItsScope) {
  thole::Machine machine = this->machine();
  {
    const thole::Claim claim = machine.claim(R"({"gpus": 8})");
    EXPECT_EQ(claim.uuids().size(), 8u);
    EXPECT_EQ(code_of(machine, "{}", {0ms}), THOLE_BUSY);
  }
  EXPECT_EQ(code_of(machine, R"({"gpus": 8})", {0ms}), THOLE_OK);
}

// Files may grow to so many bytes in this scope; SIGXFSZ ends this program, as it does by default.
struct FileLimit {
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit less{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &less);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before;
};

TEST_F(Cpp, ALimitOfFileSizesIsAnErrorAndNoEnd) {
  thole::Machine machine = this->machine();
  for (const rlim_t bytes : {0, 100}) {
    const FileLimit limit(bytes);
    EXPECT_EQ(code_of(machine, "{}", {0ms}), THOLE_UNAVAILABLE) << "a new directory cannot be made within " << bytes;
  }
  EXPECT_EQ(code_of(machine, "{}", {0ms}), THOLE_OK);
  for (const rlim_t bytes : {0, 100, 1024}) {
    const FileLimit limit(bytes);
    EXPECT_EQ(code_of(machine, "{}", {0ms}), THOLE_OK) << bytes;
    EXPECT_EQ(code_of(machine, R"({"gpus": 9})", {0ms}), THOLE_USAGE);
  }
}

TEST_F(Cpp, WhatIsToldAtAFullFileIsMissedAndNoEnd) {
  thole::Machine machine = this->machine();
  const thole::Claim all = machine.claim(R"({"gpus": 8})");
  char name[] = "/tmp/thole-told-XXXXXX";
  const int told = ::mkstemp(name);
  const FileLimit limit(0);
  EXPECT_EQ(code_of(machine, R"({"tell_fd": )" + std::to_string(told) + "}", {50ms}), THOLE_TIMED_OUT);
  EXPECT_EQ(::lseek(told, 0, SEEK_END), 0);
  ::close(told);
  ::unlink(name);
}

TEST_F(Cpp, AMovedClaimIsHeldOnce) {
  thole::Machine machine = this->machine();
  thole::Claim first = machine.claim(R"({"gpus": 8})");
  thole::Claim second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: a moved-from claim is empty
  EXPECT_TRUE(second);
  EXPECT_EQ(code_of(machine, "{}", {0ms}), THOLE_BUSY);
  second.release();
  EXPECT_FALSE(second);
  EXPECT_EQ(code_of(machine, "{}", {0ms}), THOLE_OK);
}

TEST_F(Cpp, AFailureSaysWhatAndHowToMendIt) {
  thole::Machine machine = this->machine();
  try {
    machine.plan(R"({"gpu": 1})");
    FAIL();
  } catch (const thole::Failure& failure) {
    EXPECT_EQ(failure.code(), THOLE_USAGE);
    EXPECT_NE(failure.hint().find("gpus"), std::string::npos);
    EXPECT_NE(std::string(failure.what()).find(failure.hint()), std::string::npos);
  }
  EXPECT_THROW(thole::Machine(R"({"machine": "nonesuch"})"), thole::Failure);
}

TEST_F(Cpp, SnapshotAndPlanAreJson) {
  thole::Machine machine = this->machine();
  EXPECT_NE(machine.snapshot().find("thole/machine/1"), std::string::npos);
  EXPECT_NE(machine.plan("{}").find("take"), std::string::npos);
}

TEST_F(Cpp, PatienceEndsAWait) {
  thole::Machine machine = this->machine();
  const thole::Claim all = machine.claim(R"({"gpus": 8})");
  EXPECT_EQ(code_of(machine, "{}", {20ms}), THOLE_TIMED_OUT);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[1]);
  EXPECT_EQ(code_of(machine, "{}", {std::nullopt, ends[0]}), THOLE_CANCELLED);
  ::close(ends[0]);
}

TEST_F(Cpp, TheEnvironmentNamesTheGpus) {
  thole::Machine machine = this->machine();
  const auto entries = machine.claim(R"({"on": ["1"]})").environment();
  EXPECT_NE(std::find(entries.begin(), entries.end(), "CUDA_VISIBLE_DEVICES=1"), entries.end());
}

}  // namespace
