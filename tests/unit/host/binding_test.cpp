// Masks of any width, memory policies and the binding step, on this kernel.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "host/process/binding_step.hpp"
#include "host/process/cpu_mask.hpp"
#include "host/process/local_binder.hpp"
#include "host/process/memory_policy.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

using model::CpuSet;
using model::MemoryPolicy;

TEST(CpuMask, HoldsAnyNumberOfCpus) {
  const std::vector<unsigned> bits{0, 63, 64, 1023, 1024, 8191};
  const auto mask = to_mask(bits);
  EXPECT_EQ(mask.size(), 8192 / mask_word_bits);
  EXPECT_EQ(to_bits(mask), bits);
  EXPECT_EQ(to_cpu_set(mask).to_string(), "0,63,64,1023,1024,8191");
  EXPECT_TRUE(to_mask({}).empty());
}

TEST(CpuMask, ComparesMasksOfDifferentLengths) {
  const std::vector<MaskWord> a{5}, longer{5, 0, 0}, other{5, 0, 1};
  EXPECT_TRUE(same_bits(a, longer));
  EXPECT_TRUE(same_bits(longer, a));
  EXPECT_FALSE(same_bits(a, other));
  EXPECT_FALSE(same_bits(other, a));
}

TEST(CpuMask, ReadsTheAffinityOfThisThread) {
  const auto mask = affinity_of(0);
  ASSERT_TRUE(mask);
  EXPECT_FALSE(mask->empty());
  EXPECT_GE(affinity_words() * mask_word_bits, mask->to_vector().back());
  EXPECT_FALSE(affinity_of(1 << 30));
  EXPECT_EQ(errno, ESRCH);
}

// Runs in a child, since a policy stays with its thread; the child's status is the number of what failed, 0 = nothing.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class MemoryPolicies : public ::testing::Test {
 protected:
  void SetUp() override {
    access = memory_access();
    if (access.refused != 0) GTEST_SKIP() << "memory policies are not available here: " << std::strerror(access.refused);
    ASSERT_FALSE(access.nodes.empty());
    node = static_cast<unsigned>(access.nodes.front());
  }
  port::MemoryAccess access;
  unsigned node = 0;
};

TEST_F(MemoryPolicies, AreReadBackAsSet) {
  for (const MemoryPolicy policy : {MemoryPolicy::preferred, MemoryPolicy::bind, MemoryPolicy::interleave}) {
    const int failed = in_child([&] {
      const auto nodes = to_mask({node});
      if (set_memory_policy(policy, nodes) != 0) return 1;
      MemoryPolicy got = MemoryPolicy::first_touch;
      MaskWord seen[node_words] = {};
      if (get_memory_policy(got, seen) != 0) return 2;
      return got != policy ? 3 : !same_bits(nodes, seen) ? 4 : 0;
    });
    EXPECT_EQ(failed, 0) << to_string(policy);
  }
}

TEST_F(MemoryPolicies, RefuseNodesThatDoNotExist) {
  EXPECT_EQ(in_child([] { return set_memory_policy(MemoryPolicy::bind, to_mask({1000})); }), EINVAL);
}

model::Binding on(const CpuSet& cpus) {
  model::Binding binding;
  binding.cpus = cpus;
  return binding;
}

CpuSet only(unsigned cpu) {
  CpuSet set;
  set.add(cpu);
  return set;
}

TEST(BindingStep, ReadsBackInWhicheverProcessItRan) {
  const CpuSet last = only(affinity_of(0)->to_vector().back());
  const model::Binding asked = on(last);
  BindingStep step(asked, true);
  EXPECT_EQ(in_child([&] { return static_cast<int>(step.apply()); }), 0);
  EXPECT_EQ(step.bound().got.cpus, last);
  EXPECT_NE(affinity_of(0), CpuSet()) << "the parent is not bound";
}

TEST(BindingStep, GoesOnWhenRefusedUnlessStrict) {
  const model::Binding asked = on(only(100'000));
  BindingStep lenient(asked, false), strict(asked, true);
  EXPECT_EQ(in_child([&] { return static_cast<int>(lenient.apply()); }), 0);
  EXPECT_EQ(lenient.bound().cpus_refused, EINVAL);
  EXPECT_EQ(lenient.bound().got.cpus, affinity_of(0)) << "the mask it had";
  EXPECT_EQ(in_child([&] { return static_cast<int>(strict.apply()); }), static_cast<int>(BindingStep::Failed::cpus));
}

TEST(BindingStep, TellsOfCpusThatTheKernelDropped) {
  CpuSet more = *affinity_of(0);
  const CpuSet all = more;
  more.add(100'000);
  const model::Binding asked = on(more);
  BindingStep lenient(asked, false), strict(asked, true);
  EXPECT_EQ(in_child([&] { return static_cast<int>(lenient.apply()); }), 0);
  EXPECT_EQ(lenient.bound().cpus_refused, 0);
  EXPECT_EQ(lenient.bound().got.cpus, all);
  EXPECT_EQ(in_child([&] { return static_cast<int>(strict.apply()); }), static_cast<int>(BindingStep::Failed::cpus));
}

TEST(BindingStep, LeavesAloneWhatIsNotAsked) {
  const model::Binding nothing;
  BindingStep step(nothing, true);
  EXPECT_EQ(in_child([&] { return static_cast<int>(step.apply()); }), 0);
  EXPECT_EQ(step.bound().got, model::Binding());
}

TEST_F(MemoryPolicies, AreAppliedByTheStep) {
  model::Binding asked;
  asked.memory = MemoryPolicy::bind;
  asked.memory_nodes = {static_cast<int>(node)};
  BindingStep step(asked, true);
  EXPECT_EQ(in_child([&] { return static_cast<int>(step.apply()); }), 0);
  EXPECT_EQ(step.bound().got, asked);
  asked.memory_nodes = {1000};
  BindingStep refused(asked, false), strict(asked, true);
  EXPECT_EQ(in_child([&] { return static_cast<int>(refused.apply()); }), 0);
  EXPECT_EQ(refused.bound().memory_refused, EINVAL);
  EXPECT_EQ(in_child([&] { return static_cast<int>(strict.apply()); }), static_cast<int>(BindingStep::Failed::memory));
}

TEST(LocalBinder, BindsEveryThreadOfAProcess) {
  const CpuSet target = only(affinity_of(0)->to_vector().back());
  Pipe ready = make_pipe(), end = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    end.write.reset();
    const auto wait_for_the_end = [&] {
      char byte;
      static_cast<void>(::read(end.read.get(), &byte, 1));
    };
    std::thread one(wait_for_the_end), two(wait_for_the_end);
    static_cast<void>(::write(ready.write.get(), "x", 1));
    one.join();
    two.join();
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(ready.read.get(), &byte, 1), 1);
  const port::BoundProcess bound = LocalBinder().bind_process(child, target);
  const std::size_t threads = threads_of(child).size();
  ASSERT_GE(threads, 3u);                        // a sanitizer has more, of its own
  EXPECT_EQ(bound.threads, threads);
  ASSERT_EQ(bound.masks.size(), 1u);
  EXPECT_EQ(bound.masks[0], (std::pair{target, threads}));
  for (pid_t thread : threads_of(child)) EXPECT_EQ(affinity_of(thread), target);
  end.write.reset();
  ::waitpid(child, nullptr, 0);
}

TEST(LocalBinder, NamesTheFixWhenItCannot) {
  const auto refusal = [](pid_t pid, const CpuSet& cpus) {
    try {
      LocalBinder().bind_process(pid, cpus);
    } catch (const Error& error) {
      return error.full();
    }
    return std::string("bound");
  };
  EXPECT_NE(refusal(1 << 30, only(0)).find("no such process"), std::string::npos);
  EXPECT_NE(refusal(::getpid(), only(100'000)).find("Cpus_allowed_list"), std::string::npos);
}

TEST(LocalBinder, ReadsTheVariablesOfAProcess) {
  const auto variables = LocalBinder().environment_of(::getpid());
  ASSERT_TRUE(variables.contains("PATH"));
  EXPECT_EQ(variables.at("PATH"), ::getenv("PATH"));
  EXPECT_THROW(LocalBinder().environment_of(1 << 30), Error) << "there is no such process";
}

}  // namespace
}  // namespace thole::host
