// What is loaded into this process, and may have been started in it.
#include <link.h>
#include <thole/thole.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>

namespace {

// dlopen(RTLD_NOLOAD) says the same, but looks through the file system for a library that is not there: ten times as long.
int has_name(dl_phdr_info* object, std::size_t, void* wanted) {
  const std::string_view path = object->dlpi_name ? object->dlpi_name : "";
  const std::string_view file = path.substr(path.rfind('/') + 1), name = *static_cast<const std::string_view*>(wanted);
  return file.starts_with(name) && (file.size() == name.size() || file[name.size()] == '.');
}

// The number of loads so far with which there was no libcuda: going through all libraries is a twentieth of a claim, and mostly
// none was loaded since.
std::atomic<unsigned long long> loads_without_cuda = 0;

int how_many_loads(dl_phdr_info* object, std::size_t, void* loads) {
  *static_cast<unsigned long long*>(loads) = object->dlpi_adds;
  return 1;
}

bool is_cuda_loaded() {
  unsigned long long loads = 0;
  ::dl_iterate_phdr(how_many_loads, &loads);  // before the look: a load in between is looked for next time
  if (loads == loads_without_cuda) return false;
  if (thole_is_loaded("libcuda.so")) return true;
  loads_without_cuda = loads;
  return false;
}

}  // namespace

int thole_is_loaded(const char* library) {
  if (!library) return 0;
  std::string_view name = library;
  return ::dl_iterate_phdr(has_name, &name);
}

int thole_may_have_started(const char* root) {
  if (is_cuda_loaded()) return 1;
  for (const char* device : {"/dev/nvidia-uvm", "/dev/kfd", "/dev/dri"})
    if (::access((std::string(root ? root : "") + device).c_str(), F_OK) == 0) return 1;
  return 0;
}
