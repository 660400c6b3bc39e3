// The part of libfmt that thole uses, compiled into it, so that the program needs no shared library but glibc's.
//
// How this works: everywhere else fmt's headers are included as for its compiled library, which keeps them cheap (0.4 s a
// source against 4 s header-only, GCC 12 -O2), and Debian ships that library only shared. Here the headers define the functions
// inline; taking the address of one makes the compiler emit it. A link error "undefined reference to fmt::…" is
// mended by a further line.
#define FMT_HEADER_ONLY
#include <fmt/core.h>

#include <string>

namespace thole {

[[gnu::used]] static std::string (*const kept_vformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;

}  // namespace thole
