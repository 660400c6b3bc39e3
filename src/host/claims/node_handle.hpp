// A node by its handle (name_to_handle_at(2)), which no other node of the file system ever gets: as text, TYPE:HEX.
#pragma once

#include <string>

#include "base/fd.hpp"

namespace thole::host {

// Of the node of that name; with "" of what `directory` is. "" where the file system gives none, or it may not be asked.
std::string handle_of(int directory, const std::string& name);

// What has this handle in the file system of `directory`, also without a name. Empty with errno: EINVAL, it is none; ESTALE,
// nobody has it open, nor is it on its way to anybody; another, that cannot be told (without CAP_DAC_READ_SEARCH, as in a
// container).
Fd open_by_handle(int directory, const std::string& handle);

}  // namespace thole::host
