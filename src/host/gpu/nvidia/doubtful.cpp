#include "host/gpu/nvidia/doubtful.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host::nvidia {
namespace {

std::string file_in(const std::string& directory) { return directory + "/probe-nvidia.doubtful"; }

}  // namespace

std::vector<std::uint32_t> recall_doubtful(const std::string& directory) {
  std::vector<std::uint32_t> doubtful;
  if (directory.empty()) return doubtful;
  const std::string text = read_file(file_in(directory), 4096).value_or("");
  for (std::string_view word : split(trim(text), ' '))
    if (auto index = parse_u64(word); index && *index < 256) doubtful.push_back(static_cast<std::uint32_t>(*index));
  return doubtful;
}

void note_doubtful(const std::string& directory, const std::set<std::uint32_t>& gpus) {
  if (directory.empty()) return;
  const std::string file = file_in(directory);
  if (gpus.empty()) {
    ::unlink(file.c_str());
    return;
  }
  std::string text;
  for (std::uint32_t index : gpus) text += std::to_string(index) + " ";
  try {
    write_file(file, text, 0600);
  } catch (const Error&) {
    // Not remembered: the next reading is slower, not wrong.
  }
}

}  // namespace thole::host::nvidia
