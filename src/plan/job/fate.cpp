#include "plan/job/fate.hpp"

#include <algorithm>
#include <array>

namespace thole::plan {

namespace {

constexpr Seconds longest_retry_pause{24 * 3600};

bool runs_again(const TaskEnding& ending, const model::Retry& retry) {
  if (ending.lost || ending.taken_down) return retry.lost;
  if (retry.any_failure || (retry.gpu_out_of_memory && ending.gpu_out_of_memory)) return true;
  const auto has_code = [&](const auto& range) {
    return *ending.exit_code >= range.first && *ending.exit_code <= range.second;
  };
  if (ending.exit_code) return std::ranges::any_of(retry.exit_codes, has_code);
  return ending.signal &&
         std::ranges::any_of(retry.signals, [&](int signal) { return signal == 0 || signal == *ending.signal; });
}

std::string reason_of(const TaskEnding& ending) {
  if (ending.time_limit) return "time limit";
  if (ending.taken_down) return "the machine, or somebody, ended its lane";
  if (ending.lost) return "no record of its end";
  if (ending.gpu_out_of_memory) return "out of GPU memory";
  return "";
}

Seconds pause_before(const model::Retry& retry, unsigned tries) {
  Seconds pause = retry.pause;
  for (unsigned i = 1; i < tries && pause < longest_retry_pause; ++i) pause *= 2;
  return std::min(pause, longest_retry_pause);
}

}  // namespace

TaskFate fate_of(const TaskEnding& ending, const model::Retry& retry, unsigned tries, WallTime now) {
  TaskFate fate;
  if (ending.cancelled) return {model::TaskState::cancelled, {}, ""};
  if (!ending.lost && !ending.time_limit && ending.exit_code == 0) return fate;
  fate.reason = reason_of(ending);
  fate.state = ending.lost || ending.taken_down ? model::TaskState::lost : model::TaskState::failed;
  if (tries > retry.times || !runs_again(ending, retry)) return fate;
  fate.state = model::TaskState::queued;
  if (retry.pause > Seconds{0}) fate.ready = now + pause_before(retry, tries);
  return fate;
}

bool may_be_taken_down(const model::HowEnded& how) {
  constexpr model::Signal sent[] = {model::Signal::terminate, model::Signal::hang_up, model::Signal::kill};
  return std::ranges::any_of(sent, [&](model::Signal signal) { return how.signal == static_cast<int>(signal); });
}

bool says_gpu_out_of_memory(std::string_view text) {
  static constexpr std::array<std::string_view, 8> signs = {
      "CUDA out of memory",          // PyTorch, and its OutOfMemoryError
      "HIP out of memory",           // PyTorch on ROCm
      "XPU out of memory",           // PyTorch on Intel
      "CUDA_ERROR_OUT_OF_MEMORY",    // the driver, TensorFlow, JAX
      "cudaErrorMemoryAllocation",   // the CUDA runtime
      "hipErrorOutOfMemory",
      "RESOURCE_EXHAUSTED: Out of memory",   // JAX and TensorFlow
      "OUT_OF_DEVICE_MEMORY",        // Level Zero, Vulkan
  };
  return std::ranges::any_of(signs, [&](std::string_view sign) { return text.find(sign) != std::string_view::npos; });
}

}  // namespace thole::plan
