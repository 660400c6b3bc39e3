// The placeholder's own side: the few functions of libcuda that make a context, and the wait for the end.
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/gpu/nvidia/placeholder.hpp"

namespace thole::host {
namespace {

constexpr unsigned blocking_sync = 4;   // CU_CTX_SCHED_BLOCKING_SYNC: nothing spins
using Result = int;                     // CUresult
using Device = int;                     // CUdevice
using Uuid = std::array<unsigned char, 16>;  // CUuuid

// Never the unversioned name: that is the development kit's stub.
constexpr const char* default_names[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};

// CUDA's result codes that tell a person what to do (cuda.h 13.0).
std::string meaning(Result result) {
  switch (result) {
    case 2: return "the GPU has no memory left for a context";
    case 34: return "libcuda.so.1 is the stub of a development kit, not the driver's library: look at LD_LIBRARY_PATH";
    case 46: return "the GPU is in exclusive or prohibited compute mode, or unavailable";
    case 100: return "CUDA finds no GPU";
    case 101: return "CUDA does not know the GPU";
    case 802: return "the system is not ready: on machines with NVSwitch, is the fabric manager running?";
    case 803: return "the CUDA library and the driver do not match: reboot after the update";
    case 804: return "the CUDA compatibility library does not support this GPU";
    case 999: return "CUDA failed without saying why";
    default: return fmt::format("CUDA error {}", result);
  }
}

void must(Result result) {
  if (result != 0) throw Error(ErrorCode::unavailable, meaning(result));
}

class Cuda {
 public:
  explicit Cuda(const std::string& path) {
    std::string why;
    for (const char* name : default_names) {
      if (library_) break;
      library_ = ::dlopen(path.empty() ? name : path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library_ && why.empty()) why = ::dlerror();
    }
    if (!library_) throw Error(ErrorCode::unavailable, "the CUDA library cannot be loaded: " + why);
  }

  template <class... Arguments>
  void call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Result (*)(Arguments...)>(::dlsym(library_, name));
    if (!function) throw Error(ErrorCode::unavailable, fmt::format("the CUDA library has no {}", name));
    must(function(arguments...));
  }
  bool has(const char* name) const { return ::dlsym(library_, name) != nullptr; }

 private:
  void* library_ = nullptr;             // never closed: it does not survive that
};

std::string to_text(const Uuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  return text;
}

void make_contexts(const std::string& cuda_path, const std::vector<std::string>& uuids) {
  const Cuda cuda(cuda_path);
  cuda.call("cuInit", 0u);
  int count = 0;
  cuda.call("cuDeviceGetCount", &count);
  if (count != static_cast<int>(uuids.size()))
    throw Error(ErrorCode::unavailable, fmt::format("CUDA shows {} of the {} claimed GPUs", count, uuids.size()));
  for (int index = 0; index < count; ++index) {
    Device device = 0;
    Uuid uuid{};
    void* context = nullptr;
    cuda.call("cuDeviceGet", &device, index);
    cuda.call(cuda.has("cuDeviceGetUuid_v2") ? "cuDeviceGetUuid_v2" : "cuDeviceGetUuid", uuid.data(), device);
    if (to_text(uuid) != to_lower(uuids[static_cast<std::size_t>(index)]).replace(0, 3, "GPU"))
      throw Error(ErrorCode::unavailable,
                  fmt::format("CUDA shows {} in place of {}", to_text(uuid), uuids[static_cast<std::size_t>(index)]));
    if (cuda.has("cuDevicePrimaryCtxSetFlags_v2")) cuda.call("cuDevicePrimaryCtxSetFlags_v2", device, blocking_sync);
    cuda.call("cuDevicePrimaryCtxRetain", &context, device);
  }
}

}  // namespace

int be_placeholder(const std::string& cuda_path, const std::vector<std::string>& uuids) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);   // the channel tells too, but only once the library has returned
  ::prctl(PR_SET_NAME, "thole-placehold");
  std::string said = "ready";
  try {
    make_contexts(cuda_path, uuids);
  } catch (const Error& error) {
    said = error.what();
  }
  if (!write_all(placeholder_channel_fd, said + "\n") || said != "ready") ::_exit(1);
  char nothing;
  while (::read(placeholder_channel_fd, &nothing, 1) < 0 && errno == EINTR) {}
  ::_exit(0);                           // without the library's own farewell, which may take its time
}

}  // namespace thole::host
