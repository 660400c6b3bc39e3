// How much can still be written on the file system of a path, and by whom: some of it may be reserved for root.
#pragma once

#include <cstdint>
#include <string>

namespace thole::host {

enum class Whose { ours, everybodys };   // ours: root has what is reserved for him

// False where that cannot be told, and where a file system has no such limit.
bool lacks_bytes(const std::string& path, std::uint64_t least, Whose whose);
bool lacks_files(const std::string& path);

}  // namespace thole::host
