#include "host/topology/hwloc_library.hpp"

#include <dlfcn.h>

#include "base/text.hpp"

namespace thole::host {

namespace {

constexpr const char* soname = "libhwloc.so.15";

// libhwloc asks for others by name (packaging/bundle-hwloc). The archive's own copies are found only if they are loaded before,
// by path.
void* open_hwloc(const std::string& path) {
  if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const auto slash = path.rfind('/');
  if (slash == path.npos) return nullptr;
  for (const char* needed : {"libcap.so.2", "libudev.so.1"})
    (void)::dlopen((path.substr(0, slash + 1) + needed).c_str(), RTLD_NOW | RTLD_LOCAL);
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

class Binder {
 public:
  explicit Binder(void* library) : library_(library) {}

  template <class Function>
  void operator()(Function& slot, const char* name) {
    slot = reinterpret_cast<Function>(::dlsym(library_, name));
    if (!slot && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }  // the first, "" when there is none

 private:
  void* library_;
  std::string missing_;
};

std::variant<HwlocFunctions, HwlocFailure> bind_all(void* library, const std::string& path) {
  HwlocFunctions call;
  Binder bind(library);
  bind(call.api_version, "hwloc_get_api_version");
  bind(call.init, "hwloc_topology_init");
  bind(call.destroy, "hwloc_topology_destroy");
  bind(call.load, "hwloc_topology_load");
  bind(call.set_flags, "hwloc_topology_set_flags");
  bind(call.set_io_types_filter, "hwloc_topology_set_io_types_filter");
  bind(call.set_xmlbuffer, "hwloc_topology_set_xmlbuffer");
  bind(call.type_depth, "hwloc_get_type_depth");
  bind(call.count, "hwloc_get_nbobjs_by_depth");
  bind(call.object, "hwloc_get_obj_by_depth");
  bind(call.bitmap_next, "hwloc_bitmap_next");
  bind(call.distances, "hwloc_distances_get");
  bind(call.distances_name, "hwloc_distances_get_name");
  bind(call.release_distances, "hwloc_distances_release");
  if (!bind.missing().empty()) return HwlocFailure{fmt::format("{} has no {}", path, bind.missing())};
  if (const unsigned version = call.api_version(); version >> 16 != HWLOC_API_VERSION >> 16)
    return HwlocFailure{
        fmt::format("{} is hwloc {}.{}, not {}", path, version >> 16, version >> 8 & 0xff, HWLOC_API_VERSION >> 16)};
  return call;
}

}  // namespace

std::vector<std::string> hwloc_paths(const std::string& named, const std::string& program) {
  if (!named.empty()) return {named};
  std::vector<std::string> paths;
  if (const auto slash = program.rfind('/'); slash != program.npos)
    paths.push_back(program.substr(0, slash) + "/../lib/thole/" + soname);
  paths.emplace_back(soname);
  return paths;
}

std::variant<HwlocFunctions, HwlocFailure> load_hwloc(const std::vector<std::string>& paths) {
  HwlocFailure failure{"no place to look for it"};
  for (const std::string& path : paths) {
    if (void* library = open_hwloc(path)) return bind_all(library, path);
    if (const char* why = ::dlerror()) failure.why = why;  // that of the last path, the system's, tells most
  }
  return failure;
}

}  // namespace thole::host
