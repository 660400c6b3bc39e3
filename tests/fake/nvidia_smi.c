/* A stand-in for nvidia-smi over the fake library: just what safe-gpu and GPUtil ask it, and no more than the calls that this
 * needs.
 * The real one makes many more, so a comparison with it is kind to them.
 *   nvidia-smi -q | nvidia-smi --format=csv,noheader --query-gpu=index,gpu_bus_id | … --query-compute-apps=pid,gpu_bus_id
 *   nvidia-smi -L | nvidia-smi --query-gpu=uuid,… (those of tests/gpu) | nvidia-smi --query-compute-apps=pid,used_memory
 *   nvidia-smi --query-gpu=index,uuid,… --format=csv,noheader,nounits       the twelve columns of GPUtil 1.4.0
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct process { unsigned pid; unsigned long long bytes; unsigned gi, ci; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

static void* so;

/* A function of the library by name and arguments: its return code, or "not found" where there is none. */
#define CALL(name, types, ...) \
  (dlsym(so, name) ? ((int (*) types)dlsym(so, name))(__VA_ARGS__) : 13)

static void put_number(int failed, unsigned long long value) {
  if (failed) printf(", [N/A]");
  else printf(", %llu", value);
}

static void put_text(int failed, const char* text) { printf(", %s", failed ? "[N/A]" : text); }

static const char* switched(int on) { return on ? "Enabled" : "Disabled"; }

/* index, uuid, utilization.gpu, memory.total, .used, .free, driver_version, name, gpu_serial, display_active, display_mode,
 * temperature */
static void put_gputil_row(unsigned index, void* device) {
  char text[96];
  unsigned rates[2], celsius;
  int on, failed;
  struct memory_v2 m = {.version = sizeof m | 2u << 24};
  printf("%u", index);
  failed = CALL("nvmlDeviceGetUUID", (void*, char*, unsigned), device, text, sizeof text);
  put_text(failed, text);
  failed = CALL("nvmlDeviceGetUtilizationRates", (void*, unsigned*), device, rates);
  put_number(failed, rates[0]);
  failed = CALL("nvmlDeviceGetMemoryInfo_v2", (void*, struct memory_v2*), device, &m);
  put_number(failed, m.total >> 20);
  put_number(failed, (m.total - m.free - m.reserved) >> 20);
  put_number(failed, m.free >> 20);
  failed = CALL("nvmlSystemGetDriverVersion", (char*, unsigned), text, 80);
  put_text(failed, text);
  failed = CALL("nvmlDeviceGetName", (void*, char*, unsigned), device, text, sizeof text);
  put_text(failed, text);
  failed = CALL("nvmlDeviceGetSerial", (void*, char*, unsigned), device, text, 30);
  put_text(failed, text);
  failed = CALL("nvmlDeviceGetDisplayActive", (void*, int*), device, &on);
  put_text(failed, switched(on));
  failed = CALL("nvmlDeviceGetDisplayMode", (void*, int*), device, &on);
  put_text(failed, switched(on));
  failed = CALL("nvmlDeviceGetTemperature", (void*, int, unsigned*), device, 0, &celsius);
  put_number(failed, celsius);
  printf("\n");
}

static void put_field(const char* field, void* device, const struct pci* at) {
  char text[96] = "";
  unsigned pair[2] = {0, 0};
  unsigned long long mib = 0;
  int failed = 0, number = 1;
  struct memory_v2 m = {.version = sizeof m | 2u << 24};
  if (!strncmp(field, "memory.", 7)) failed = CALL("nvmlDeviceGetMemoryInfo_v2", (void*, struct memory_v2*), device, &m);
  if (!strcmp(field, "memory.total")) mib = m.total >> 20;
  else if (!strcmp(field, "memory.used")) mib = (m.used - m.reserved) >> 20;
  else if (!strcmp(field, "memory.reserved")) mib = m.reserved >> 20;
  else if (!strncmp(field, "utilization.", 12)) {
    failed = CALL("nvmlDeviceGetUtilizationRates", (void*, unsigned*), device, pair);
    mib = pair[!strcmp(field, "utilization.memory")];
  } else if (!strcmp(field, "temperature.gpu")) {
    failed = CALL("nvmlDeviceGetTemperature", (void*, int, unsigned*), device, 0, pair);
    mib = pair[0];
  } else if (!strcmp(field, "power.draw") || !strcmp(field, "enforced.power.limit")) {
    failed =
        CALL(field[0] == 'p' ? "nvmlDeviceGetPowerUsage" : "nvmlDeviceGetEnforcedPowerLimit", (void*, unsigned*), device, pair);
    mib = pair[0] / 1000;
  } else {
    number = 0;
    if (!strcmp(field, "uuid")) failed = CALL("nvmlDeviceGetUUID", (void*, char*, unsigned), device, text, sizeof text);
    else if (!strcmp(field, "name")) failed = CALL("nvmlDeviceGetName", (void*, char*, unsigned), device, text, sizeof text);
    else if (!strcmp(field, "pci.bus_id")) snprintf(text, sizeof text, "%s", at->bus_id);
    else if (!strcmp(field, "serial"))
      failed = CALL("nvmlDeviceGetSerial", (void*, char*, unsigned), device, text, sizeof text);
    else if (!strcmp(field, "driver_version"))
      failed = CALL("nvmlSystemGetDriverVersion", (char*, unsigned), text, sizeof text);
    else if (!strcmp(field, "compute_mode")) {
      failed = CALL("nvmlDeviceGetComputeMode", (void*, unsigned*), device, pair);
      snprintf(text, sizeof text, "%s", pair[0] == 3 ? "Exclusive_Process" : pair[0] == 2 ? "Prohibited" : "Default");
    } else failed = 1;
  }
  if (failed) printf("[N/A]");
  else if (number) printf("%llu", mib);
  else printf("%s", text);
}

static void put_row(const char* fields, void* device, const struct pci* at) {
  char copy[512];
  snprintf(copy, sizeof copy, "%s", fields);
  const char* between = "";
  for (char* field = strtok(copy, ","); field; field = strtok(NULL, ",")) {
    printf("%s", between);
    put_field(field, device, at);
    between = ", ";
  }
  puts("");
}

static void put_processes(void* device, const struct pci* at, int memory) {
  struct process list[512];
  unsigned entries = 512;
  if (CALL("nvmlDeviceGetComputeRunningProcesses_v3", (void*, unsigned*, struct process*), device, &entries, list)) return;
  for (unsigned p = 0; p < entries; ++p)
    if (memory) printf("%u, %llu\n", list[p].pid, list[p].bytes >> 20);
    else printf("%u, %s\n", list[p].pid, at->bus_id);
}

int main(int argc, char** argv) {
  const char* path = getenv("THOLE_NVML");
  so = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW);
  unsigned n = 0;
  if (!so || CALL("nvmlInit_v2", (void)) || CALL("nvmlDeviceGetCount_v2", (unsigned*), &n)) {
    puts("NVIDIA-SMI has failed");
    return 9;
  }
  const char* asked = "";
  for (int i = 1; i < argc; ++i)
    if (strncmp(argv[i], "--format", 8)) asked = argv[i];
  if (!strcmp(asked, "-q")) printf("Attached GPUs                             : %u\n", n);
  for (unsigned i = 0; i < n; ++i) {
    void* device;
    struct pci at;
    if (CALL("nvmlDeviceGetHandleByIndex_v2", (unsigned, void**), i, &device)) continue;
    if (CALL("nvmlDeviceGetPciInfo_v3", (void*, struct pci*), device, &at)) continue;
    if (!strcmp(asked, "-L")) printf("GPU %u: a fake\n", i);
    else if (strstr(asked, "--query-gpu=index,uuid")) put_gputil_row(i, device);
    else if (!strncmp(asked, "--query-gpu=uuid", 16)) put_row(asked + 12, device, &at);
    else if (strstr(asked, "--query-gpu=")) printf("%u, %s\n", i, at.bus_id);
    else if (strstr(asked, "--query-compute-apps=")) put_processes(device, &at, strstr(asked, "used_memory") != NULL);
  }
  return 0;
}
