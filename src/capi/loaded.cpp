// What is loaded into this process.
#include <link.h>
#include <thole/thole.h>

#include <string_view>

namespace {

// dlopen(RTLD_NOLOAD) says the same, but looks through the file system for a library that is not there: ten times as long.
int has_name(dl_phdr_info* object, std::size_t, void* wanted) {
  const std::string_view path = object->dlpi_name ? object->dlpi_name : "";
  const std::string_view file = path.substr(path.rfind('/') + 1), name = *static_cast<const std::string_view*>(wanted);
  return file.starts_with(name) && (file.size() == name.size() || file[name.size()] == '.');
}

}  // namespace

int thole_is_loaded(const char* library) {
  std::string_view name = library;
  return ::dl_iterate_phdr(has_name, &name);
}
