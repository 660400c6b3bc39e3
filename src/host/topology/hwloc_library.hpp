// libhwloc, loaded at run time: the few functions that are called, typed by hwloc's own headers.
//
// Loaded in a probe process only (reader.hpp). It is not linked because the program must start within 2 ms and run
// where nothing but glibc is installed, and because most runs find the topology in the cache and never need it.
#pragma once

#include <hwloc.h>
#include <hwloc/distances.h>

#include <string>
#include <variant>
#include <vector>

namespace thole::host {

// The layout of hwloc's objects, which are read directly, is that of all 2.x (libhwloc.so.15).
static_assert(HWLOC_API_VERSION >> 16 == 2, "src/host/topology is written for hwloc 2");

// hwloc's inline helpers must not be used: they would ask for these by name when the program is linked.
struct HwlocFunctions {
  decltype(&::hwloc_get_api_version) api_version = nullptr;
  decltype(&::hwloc_topology_init) init = nullptr;
  decltype(&::hwloc_topology_destroy) destroy = nullptr;
  decltype(&::hwloc_topology_load) load = nullptr;
  decltype(&::hwloc_topology_set_flags) set_flags = nullptr;
  decltype(&::hwloc_topology_set_io_types_filter) set_io_types_filter = nullptr;
  decltype(&::hwloc_topology_set_xmlbuffer) set_xmlbuffer = nullptr;
  decltype(&::hwloc_get_type_depth) type_depth = nullptr;
  decltype(&::hwloc_get_nbobjs_by_depth) count = nullptr;
  decltype(&::hwloc_get_obj_by_depth) object = nullptr;
  decltype(&::hwloc_bitmap_next) bitmap_next = nullptr;
  decltype(&::hwloc_distances_get) distances = nullptr;
  decltype(&::hwloc_distances_get_name) distances_name = nullptr;
  decltype(&::hwloc_distances_release) release_distances = nullptr;
};

struct HwlocFailure {
  std::string why;  // dlerror's words, or which function is missing
};

// Where to look, the best first: `named` alone when it is not empty, else the copy that the relocatable archive carries
// (../lib/thole beside the directory of `program`), else the system's.
std::vector<std::string> hwloc_paths(const std::string& named, const std::string& program);

// The first of `paths` that can be loaded. Never unloaded.
std::variant<HwlocFunctions, HwlocFailure> load_hwloc(const std::vector<std::string>& paths);

}  // namespace thole::host
