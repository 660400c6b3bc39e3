#include "host/queue/copied_queue.hpp"

#include "base/text.hpp"
#include "host/process/file_within.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

Bearer whose_is(const port::RunTrace& run, const std::string& directory, pid_t pid) {
  if (!run.lane) return {};
  constexpr model::FileIdentity none{};
  const std::string record = fmt::format("/lanes/{}", *run.lane);
  const model::FileIdentity ours = file_here(directory + record).file;
  const bool is_copied = run.file != none && ours != none && run.file != ours;
  const std::string word = word_of(pid, "THOLE_TASK=");
  if (!word.starts_with(run.mark))               // its environment is closed, or emptied
    return {is_copied ? Bearer::of_original : Bearer::ours};
  const std::string named = word.substr(run.mark.size());
  if (run.queue != 0 && model::path_hash(named) != run.queue) return {Bearer::anothers};
  const FileFound theirs = file_within(pid, named + record);
  if (!theirs.told) return {is_copied ? Bearer::of_original : Bearer::ours, named};
  if (theirs.file == none || theirs.file == ours) return {};
  if (run.file == none) return {Bearer::of_original, named};
  if (is_copied) return {theirs.file == run.file ? Bearer::of_original : Bearer::ours, named};
  // Made here, where that path leads to us: it leads to another one there, in a mount namespace of its own.
  return {ours != none && file_here(named + record).file == ours ? Bearer::anothers : Bearer::ours};
}

}  // namespace thole::host
