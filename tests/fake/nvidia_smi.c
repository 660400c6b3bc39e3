/* A stand-in for nvidia-smi over the fake library: just what safe-gpu asks it, and no more than the calls that this needs. The real
 * one makes many more, so a comparison with it is kind to safe-gpu.
 *   nvidia-smi -q | nvidia-smi --format=csv,noheader --query-gpu=index,gpu_bus_id | … --query-compute-apps=pid,gpu_bus_id
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct process { unsigned pid; unsigned long long bytes; unsigned gi, ci; };

int main(int argc, char** argv) {
  const char* path = getenv("THOLE_NVML");
  void* so = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW);
  if (!so) { puts("NVIDIA-SMI has failed"); return 9; }
  int (*init)(void) = (int (*)(void))dlsym(so, "nvmlInit_v2");
  int (*count)(unsigned*) = (int (*)(unsigned*))dlsym(so, "nvmlDeviceGetCount_v2");
  int (*handle)(unsigned, void**) = (int (*)(unsigned, void**))dlsym(so, "nvmlDeviceGetHandleByIndex_v2");
  int (*pci)(void*, struct pci*) = (int (*)(void*, struct pci*))dlsym(so, "nvmlDeviceGetPciInfo_v3");
  int (*processes)(void*, unsigned*, struct process*) =
      (int (*)(void*, unsigned*, struct process*))dlsym(so, "nvmlDeviceGetComputeRunningProcesses_v3");
  unsigned n = 0;
  if (!init || init() || count(&n)) { puts("NVIDIA-SMI has failed"); return 9; }
  const char* asked = argc > 1 ? argv[argc - 1] : "";
  if (!strcmp(asked, "-q")) printf("Attached GPUs                             : %u\n", n);
  for (unsigned i = 0; i < n; ++i) {
    void* device;
    struct pci at;
    struct process list[512];
    unsigned entries = 512;
    if (handle(i, &device) || pci(device, &at)) continue;
    if (strstr(asked, "--query-gpu=")) printf("%u, %s\n", i, at.bus_id);
    if (!strstr(asked, "--query-compute-apps=") || processes(device, &entries, list)) continue;
    for (unsigned p = 0; p < entries; ++p) printf("%u, %s\n", list[p].pid, at.bus_id);
  }
  return 0;
}
