// Paths through a directory that is open: they lead into that one, whatever has its name by now.
#pragma once

#include <string>

namespace thole {

// Such a path. Where /proc is another pid namespace's, and so knows nothing of this process, it is the directory's `name`.
std::string way_into(int directory, const std::string& name);

bool leads_through_open(const std::string& path);

// A path that may begin so, as others know it: by the name that the directory has now, or had last. Any other is itself.
std::string shown_path(const std::string& path);

}  // namespace thole
