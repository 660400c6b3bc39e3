// The step of a start that binds: prepared by the parent, applied by the child between fork and exec, read back there.
#pragma once

#include <span>
#include <vector>

#include "host/process/cpu_mask.hpp"
#include "model/bound.hpp"

namespace thole::host {

class BindingStep {
 public:
  // strict: apply() fails where the kernel refuses, or gives something else.
  BindingStep(const model::Binding& asked, bool strict);
  ~BindingStep();
  BindingStep(const BindingStep&) = delete;
  BindingStep& operator=(const BindingStep&) = delete;

  enum class Failed { nothing, cpus, memory };
  Failed apply();                                // in the process to be bound; async-signal-safe
  model::Bound bound() const;                     // what apply() was answered, in whichever process it ran

 private:
  struct Answers;                                // in pages that parent and child share even after a true fork
  bool apply_cpus();                             // false: refused, or not as asked
  bool apply_memory();

  const model::Binding& asked_;
  bool strict_;
  std::vector<MaskWord> cpus_, nodes_;
  Answers* answers_ = nullptr;                   // null: nothing to bind
  std::size_t bytes_ = 0;
};

}  // namespace thole::host
