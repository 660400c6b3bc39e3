// The version of this program and library.
#pragma once

namespace thole {

extern const char* const version;      // "0.1.0"

}  // namespace thole
