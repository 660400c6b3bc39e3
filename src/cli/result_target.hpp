// Where a result goes that somebody has named: a file, what a link leads to, or what is open or written to as it is.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "cli/context.hpp"

namespace thole::cli {

struct ResultTarget {
  std::string name;                // as it was typed
  std::string path;                // of a file: without the links that led to it
  bool is_file = false;            // it is written anew beside it and renamed; else it is a device, a pipe or the like
  int descriptor = -1;             // one of our own that the path means ("-", /dev/stdout, /dev/fd/5); -1: none
  mode_t mode = 0;                 // what the umask leaves; an existing file of ours keeps its own
};

// Follows the links by hand: a rename would replace the first of them. Throws Error(unavailable) of what cannot be written to.
ResultTarget result_target(const std::string& name);

// Throws Error(usage) where a result would go into a file that is read for it, whatever its names: the machine's, or `input`
// ("-" is stdin, "" none). Written anew, it would be lost.
void refuse_input_as_result(Context& context, std::string_view option, const std::string& name, const std::string& input = "");

// Before hours of work: throws what write_result() would, as far as it can be known. What lies there stays as it is.
void try_result(const ResultTarget& target);

// A file whole or not at all; else as it comes. `open_flags`: of what is no file.
void write_result(const ResultTarget& target, std::string_view text, int open_flags = 0);

}  // namespace thole::cli
