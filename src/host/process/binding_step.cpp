#include "host/process/binding_step.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "host/process/memory_policy.hpp"

namespace thole::host {

using model::MemoryPolicy;

// Followed by `cpu_words` words: the mask read back.
struct BindingStep::Answers {
  int cpus_refused = 0, memory_refused = 0;
  int cpus_unread = 0, memory_unread = 0;
  MemoryPolicy policy = MemoryPolicy::first_touch;
  MaskWord nodes[node_words];
  std::size_t cpu_words = 0;

  std::span<MaskWord> cpus() { return {reinterpret_cast<MaskWord*>(this + 1), cpu_words}; }
};

namespace {

bool wants_memory(const model::Binding& asked) { return asked.memory && *asked.memory != MemoryPolicy::first_touch; }

}  // namespace

BindingStep::BindingStep(const model::Binding& asked, bool strict) : asked_(asked), strict_(strict) {
  if (!asked.cpus && !wants_memory(asked)) return;
  if (asked.cpus) cpus_ = to_mask(asked.cpus->to_vector());
  nodes_ = to_mask({asked.memory_nodes.begin(), asked.memory_nodes.end()});
  const std::size_t words = std::max(affinity_words(), cpus_.size());
  bytes_ = sizeof(Answers) + words * sizeof(MaskWord);
  void* pages = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw Error(ErrorCode::internal, "cannot start a process").because(errno);
  answers_ = new (pages) Answers;
  answers_->cpu_words = words;
}

BindingStep::~BindingStep() {
  if (answers_) ::munmap(answers_, bytes_);
}

bool BindingStep::apply_cpus() {
  Answers& answers = *answers_;
  if (::sched_setaffinity(0, cpus_.size() * sizeof(MaskWord), reinterpret_cast<const cpu_set_t*>(cpus_.data())) != 0)
    answers.cpus_refused = errno;
  const std::span<MaskWord> got = answers.cpus();
  if (::sched_getaffinity(0, got.size_bytes(), reinterpret_cast<cpu_set_t*>(got.data())) != 0) answers.cpus_unread = errno;
  return answers.cpus_refused == 0 && answers.cpus_unread == 0 && same_bits(cpus_, got);
}

bool BindingStep::apply_memory() {
  Answers& answers = *answers_;
  answers.memory_refused = set_memory_policy(*asked_.memory, nodes_);
  answers.memory_unread = get_memory_policy(answers.policy, answers.nodes);
  return answers.memory_refused == 0 && answers.memory_unread == 0 && answers.policy == *asked_.memory &&
         same_bits(nodes_, answers.nodes);
}

BindingStep::Failed BindingStep::apply() {
  if (!answers_) return Failed::nothing;
  if (asked_.cpus && !apply_cpus() && strict_) return Failed::cpus;
  if (wants_memory(asked_) && !apply_memory() && strict_) return Failed::memory;
  return Failed::nothing;
}

model::Bound BindingStep::bound() const {
  model::Bound bound;
  if (!answers_) return bound;
  Answers& answers = *answers_;
  bound.cpus_refused = answers.cpus_refused;
  bound.memory_refused = answers.memory_refused;
  if (asked_.cpus && answers.cpus_unread == 0) bound.got.cpus = to_cpu_set(answers.cpus());
  if (wants_memory(asked_) && answers.memory_unread == 0) {
    bound.got.memory = answers.policy;
    for (unsigned node : to_bits(answers.nodes)) bound.got.memory_nodes.push_back(static_cast<int>(node));
  }
  return bound;
}

}  // namespace thole::host
