// The outputs of tasks that wait to be shown, however many: some MiB of them in memory, the others one behind
// the other in a file without a name. So neither memory nor descriptors grow with the tasks that a slow one keeps waiting.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "app/map/map.hpp"
#include "base/fd.hpp"
#include "base/nameless_files.hpp"

namespace thole::cli {

// One task's: stdout, then stderr.
struct KeptOutput {
  std::unique_ptr<port::TaskOutput> rest;        // what is not in the file; null: nothing
  std::shared_ptr<const Fd> file;
  std::size_t at = 0, output = 0, errors = 0;    // there, and how much of each
  bool is_there = false;                         // else: of a task that has not ended
};

class KeptOutputs {
 public:
  explicit KeptOutputs(std::string folder) : place_(std::move(folder)) {}

  KeptOutput keep(port::TaskOutput output);
  port::TaskOutput take_rest(KeptOutput& kept);  // once

 private:
  std::size_t append(port::Written& written);
  bool open_file();

  NamelessFiles place_;
  std::shared_ptr<const Fd> file_;
  std::size_t end_ = 0;                          // of it
  std::size_t in_memory_ = 0, files_ = 0;        // bytes, and descriptors of tasks' own files
};

}  // namespace thole::cli
