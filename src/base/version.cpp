#include "base/version.hpp"

namespace thole {

const char* const version = THOLE_VERSION;  // told to this source alone (src/CMakeLists.txt): another one rebuilds nothing else

}  // namespace thole
