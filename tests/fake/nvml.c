/* A fake NVIDIA driver library for tests: libnvidia-ml.so.1 with GPUs and faults read from the file named by THOLE_FAKE_NVML,
 * else from nvml.conf beside the library (for processes that do not inherit the variable).
 *
 * One statement a line, words separated by spaces, '#' begins a comment. FUNCTION is the exact symbol, or * for all.
 *   driver 580.65.06 | nvml 13.580.65          versions
 *   gpus 8                                     so many GPUs, with made-up but stable identities and nothing running
 *   listed 7                                   how many the library admits to (hot-unplug)
 *   calls FILE                                 every call appends its name to it, for tests that count
 *   old_fields                                 field values as drivers before 12.8 know them: only 147
 *   init RC                                    what nvmlInit_v2 returns
 *   stride 24|32                               bytes of one entry of the _v3 process lists
 *   rc|hang|crash|exit FUNCTION [RC]           fault of a function on all GPUs (or of one without a GPU)
 *   wakes_us N                                 nvmlInit takes so long while no other process keeps the driver awake
 *   delay_us FUNCTION N | noise                every call waits; every call prints to stdout
 *   gpu I KEY VALUES…                          of one GPU; gpu * for all:
 *     serial S (without it there is none) | monitor 0|1
 *     uuid U | name N… | pci A | minor M | memory TOTAL RESERVED USED (MiB) | util GPU MEM | temp C | power W LIMIT | mode M
 *     fabric STATE STATUS | remap PENDING FAILED | slowed BITS
 *     display 0|1 | recovery N | nvswitch N | link K REMOTE-PCI | p2p J STATUS | cpus FIRST LAST | xid N
 *     process compute|graphics|mps PID MIB|na [GI CI]
 *     accounting 0|1 | account PID MIB|na STARTED   microseconds since 1970
 *     mig 0|1 | instance UUID GI CI GPU-SLICES COMPUTE-SLICES MIB USED PROFILE
 *     rc|hang|crash|exit FUNCTION [RC]
 *     whole FUNCTION RC                        only for the GPU as a whole, not for its MIG instances
 *
 * Built twice: as it is, and with FAKE_MINIMAL, which leaves out everything that old libraries lack.
 * Own declarations, as in src/host/gpu/nvidia/abi.hpp, but written separately: a mistake in one does not hide in the other.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_GPUS = 16, MAX_PROCESSES = 512, MAX_INSTANCES = 8, MAX_RULES = 64, MAX_ACCOUNTS = 8192, MAX_LINKS = 18 };
enum { NO_INSTANCE = -1 };

struct rule { char action[8], function[56]; int gpu, rc; };
struct process { char list; unsigned pid; unsigned long long bytes; unsigned gi, ci; };
struct account { unsigned pid; unsigned long long bytes, started_us; };
struct gpu;
struct handle { struct gpu* gpu; int instance; };          /* what an nvmlDevice_t points to */
struct instance {
  struct handle handle;
  char uuid[96], profile[32];
  unsigned gi, ci, gpu_slices, compute_slices;
  unsigned long long mib, used;
};
struct gpu {
  struct handle handle;
  int index;
  char uuid[96], name[96], serial[32], pci[32];
  unsigned monitor, minor, util[2], temperature, power, power_limit, mode, display, recovery, nvswitch, mig, xid_pending, xid;
  unsigned long long total, reserved, used;
  unsigned fabric_state, fabric_status, remap_pending, remap_failed, slowed;
  int cpu_first, cpu_last;
  char links[MAX_LINKS][32];
  int p2p[MAX_GPUS];
  int processes, instances, accounting, accounts;
  struct process process[MAX_PROCESSES];
  struct instance instance[MAX_INSTANCES];
  struct account account[MAX_ACCOUNTS];                    /* last: too large to be cleared each time */
};

static struct gpu gpus[MAX_GPUS];
static struct rule rules[MAX_RULES];
static int n_gpus, n_listed, n_rules, init_rc, wakes_us, noise, old_fields, initialised;
static char calls_file[512], conf_path[1024];
static struct stat conf_read;                              /* the file as it was when it was last read */
static unsigned stride = 24;
static char driver[80], nvml_version[80];
static struct { char function[56]; unsigned us; } delays[8];
static int n_delays;

static void reset_gpu(int i) {
  struct gpu* g = &gpus[i];
  unsigned xid = g->xid, pending = g->xid_pending;
  memset(g, 0, offsetof(struct gpu, account));
  g->xid = xid;                                            /* an event is delivered once, however often the file is read */
  g->xid_pending = pending;
  g->index = i;
  g->handle.gpu = g;
  g->handle.instance = NO_INSTANCE;
  snprintf(g->uuid, sizeof g->uuid, "GPU-%08x-0000-4000-8000-%012x", 0xfa4e0000u + i, i);
  snprintf(g->name, sizeof g->name, "NVIDIA A100-SXM4-80GB");
  snprintf(g->pci, sizeof g->pci, "00000000:%02X:00.0", 0x07 + 8 * i);
  g->minor = i;
  g->total = 81920; g->reserved = 596; g->used = 0;
  g->temperature = 31; g->power = 56; g->power_limit = 400;
  g->cpu_first = g->cpu_last = -1;
  for (int j = 0; j < MAX_GPUS; ++j) g->p2p[j] = 5;        /* not supported */
}

static void add_rule(const char* action, const char* function, int gpu, int rc) {
  if (n_rules == MAX_RULES) return;
  struct rule* r = &rules[n_rules++];
  snprintf(r->action, sizeof r->action, "%s", action);
  snprintf(r->function, sizeof r->function, "%s", function);
  r->gpu = gpu;
  r->rc = rc;
}

static int is_fault(const char* word) {
  return !strcmp(word, "whole") || !strcmp(word, "rc") || !strcmp(word, "hang") || !strcmp(word, "crash") ||
         !strcmp(word, "exit");
}

static void die(const char* line) {
  fprintf(stderr, "fake NVML: cannot understand: %s\n", line);
  _exit(99);
}

static void configure_gpu(struct gpu* g, const char* key, char* rest, const char* line) {
  char a[96], b[96];
  unsigned u1, u2, u3;
  if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", rest);
  else if (!strcmp(key, "name")) snprintf(g->name, sizeof g->name, "%s", rest);
  else if (!strcmp(key, "serial")) snprintf(g->serial, sizeof g->serial, "%s", rest);
  else if (!strcmp(key, "monitor")) g->monitor = atoi(rest);
  else if (!strcmp(key, "pci")) snprintf(g->pci, sizeof g->pci, "%s", rest);
  else if (!strcmp(key, "minor")) g->minor = atoi(rest);
  else if (!strcmp(key, "memory") && sscanf(rest, "%llu %llu %llu", &g->total, &g->reserved, &g->used) == 3) {}
  else if (!strcmp(key, "util") && sscanf(rest, "%u %u", &g->util[0], &g->util[1]) == 2) {}
  else if (!strcmp(key, "temp")) g->temperature = atoi(rest);
  else if (!strcmp(key, "power") && sscanf(rest, "%u %u", &g->power, &g->power_limit) == 2) {}
  else if (!strcmp(key, "mode")) g->mode = atoi(rest);
  else if (!strcmp(key, "display")) g->display = atoi(rest);
  else if (!strcmp(key, "fabric") && sscanf(rest, "%u %u", &g->fabric_state, &g->fabric_status) == 2) {}
  else if (!strcmp(key, "remap") && sscanf(rest, "%u %u", &g->remap_pending, &g->remap_failed) == 2) {}
  else if (!strcmp(key, "slowed")) g->slowed = strtoul(rest, NULL, 0);
  else if (!strcmp(key, "recovery")) g->recovery = atoi(rest);
  else if (!strcmp(key, "nvswitch")) g->nvswitch = atoi(rest);
  else if (!strcmp(key, "link") && sscanf(rest, "%u %31s", &u1, a) == 2 && u1 < MAX_LINKS)
    snprintf(g->links[u1], 32, "%.31s", a);
  else if (!strcmp(key, "p2p") && sscanf(rest, "%u %u", &u1, &u2) == 2 && u1 < MAX_GPUS) g->p2p[u1] = u2;
  else if (!strcmp(key, "cpus") && sscanf(rest, "%d %d", &g->cpu_first, &g->cpu_last) == 2) {}
  else if (!strcmp(key, "mig")) g->mig = atoi(rest);
  else if (!strcmp(key, "xid")) { unsigned x = atoi(rest); if (g->xid != x) { g->xid = x; g->xid_pending = 1; } }
  else if (!strcmp(key, "process") && g->processes < MAX_PROCESSES) {
    struct process* p = &g->process[g->processes++];
    p->gi = p->ci = 0xFFFFFFFFu;
    if (sscanf(rest, "%95s %u %95s %u %u", a, &p->pid, b, &p->gi, &p->ci) < 3) die(line);
    p->list = a[0];
    p->bytes = !strcmp(b, "na") ? ~0ULL : strtoull(b, NULL, 10) << 20;
  } else if (!strcmp(key, "accounting")) g->accounting = atoi(rest);
  else if (!strcmp(key, "account") && g->accounts < MAX_ACCOUNTS) {
    struct account* p = &g->account[g->accounts++];
    if (sscanf(rest, "%u %95s %llu", &p->pid, a, &p->started_us) != 3) die(line);
    p->bytes = !strcmp(a, "na") ? ~0ULL : strtoull(a, NULL, 10) << 20;
  } else if (!strcmp(key, "instance") && g->instances < MAX_INSTANCES) {
    struct instance* in = &g->instance[g->instances];
    in->handle.gpu = g;
    in->handle.instance = g->instances++;
    if (sscanf(rest, "%95s %u %u %u %u %llu %llu %31s", in->uuid, &in->gi, &in->ci, &in->gpu_slices, &in->compute_slices,
               &in->mib, &in->used, in->profile) != 8)
      die(line);
  } else if (is_fault(key) && sscanf(rest, "%95s %u", a, &u3) >= 1) {
    u3 = 0;
    sscanf(rest, "%95s %u", a, &u3);
    add_rule(key, a, g->index, u3);
  } else die(line);
}

static void configure_line(char* line) {
  char copy[512], word[64] = "", rest[512] = "", index[16], key[32];
  snprintf(copy, sizeof copy, "%s", line);
  int at = 0;
  if (sscanf(line, "%63s %n", word, &at) < 1 || word[0] == '#') return;
  if (at > 0) snprintf(rest, sizeof rest, "%s", line + at);
  if (!strcmp(word, "driver")) snprintf(driver, sizeof driver, "%.79s", rest);
  else if (!strcmp(word, "nvml")) snprintf(nvml_version, sizeof nvml_version, "%.79s", rest);
  else if (!strcmp(word, "gpus")) {
    n_gpus = n_listed = atoi(rest);
    if (n_gpus < 0 || n_gpus > MAX_GPUS) die(copy);
    for (int i = 0; i < n_gpus; ++i) reset_gpu(i);
  }
  else if (!strcmp(word, "listed")) n_listed = atoi(rest);
  else if (!strcmp(word, "init")) init_rc = atoi(rest);
  else if (!strcmp(word, "stride")) stride = atoi(rest);
  else if (!strcmp(word, "noise")) noise = 1;
  else if (!strcmp(word, "wakes_us")) wakes_us = atoi(rest);
  else if (!strcmp(word, "old_fields")) old_fields = 1;
  else if (!strcmp(word, "calls")) snprintf(calls_file, sizeof calls_file, "%.511s", rest);
  else if (!strcmp(word, "delay_us") && n_delays < 8 &&
           sscanf(rest, "%55s %u", delays[n_delays].function, &delays[n_delays].us) == 2)
    ++n_delays;
  else if (is_fault(word)) {
    char function[56];
    int rc = 0;
    if (sscanf(rest, "%55s %d", function, &rc) < 1) die(copy);
    add_rule(word, function, -1, rc);
  } else if (!strcmp(word, "gpu") && sscanf(rest, "%15s %31s %n", index, key, &at) >= 2) {
    char values[512];
    for (int i = 0; i < n_gpus; ++i) {
      snprintf(values, sizeof values, "%s", rest + at);
      if (!strcmp(index, "*") || atoi(index) == i) configure_gpu(&gpus[i], key, values, copy);
    }
  } else die(copy);
}

static void find_configuration(void) {
  const char* path = getenv("THOLE_FAKE_NVML");
  Dl_info us;
  if (path) {
    snprintf(conf_path, sizeof conf_path, "%.1000s", path);
  } else if (dladdr(&n_gpus, &us)) {
    snprintf(conf_path, sizeof conf_path, "%.1000s", us.dli_fname);
    char* slash = strrchr(conf_path, '/');
    if (slash) strcpy(slash, "/nvml.conf");
  }
}

static void configure(void) {
  if (!conf_path[0]) find_configuration();
  FILE* file = conf_path[0] ? fopen(conf_path, "re") : NULL;
  snprintf(driver, sizeof driver, "580.65.06");
  snprintf(nvml_version, sizeof nvml_version, "13.580.65.06");
  n_gpus = n_listed = n_rules = n_delays = init_rc = wakes_us = noise = old_fields = 0;
  calls_file[0] = 0;
  stride = 24;
  if (!file) {
    n_gpus = n_listed = 1;
    reset_gpu(0);
    return;
  }
  fstat(fileno(file), &conf_read);
  char line[512];
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    configure_line(line);
  }
  fclose(file);
}

/* An edited file takes effect at the next call. Tests rename a new file into place, so its number changes. */
static void configure_if_edited(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  struct stat now;
  pthread_mutex_lock(&mutex);
  if (!conf_path[0]) configure();
  else if (stat(conf_path, &now) == 0 && (now.st_ino != conf_read.st_ino ||
                                          memcmp(&now.st_mtim, &conf_read.st_mtim, sizeof now.st_mtim)))
    configure();
  pthread_mutex_unlock(&mutex);
}

static void count_call(const char* function) {
  if (!calls_file[0]) return;
  int fd = open(calls_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char line[80];
  int n = snprintf(line, sizeof line, "%s\n", function);
  if (fd >= 0 && write(fd, line, n) != n) _exit(98);
  close(fd);
}

/* Faults of one call. */
static int judge(const char* function, const struct gpu* g, int instance) {
  for (int i = 0; i < n_rules; ++i) {
    const struct rule* r = &rules[i];
    if (strcmp(r->function, "*") && strcmp(r->function, function)) continue;
    if (r->gpu >= 0 && (!g || g->index != r->gpu)) continue;
    if (!strcmp(r->action, "hang")) for (;;) pause();
    if (!strcmp(r->action, "crash")) abort();
    if (!strcmp(r->action, "exit")) exit(7);
    if (!strcmp(r->action, "whole") && instance >= 0) continue;
    if (!strcmp(r->action, "rc") || !strcmp(r->action, "whole")) return r->rc;
  }
  return initialised || !strncmp(function, "nvmlInit", 8) ? 0 : 1;
}

/* Faults, delays and noise of one call. */
static int enter(const char* function, const struct gpu* g, int instance) {
  configure_if_edited();
  count_call(function);
  if (noise) { printf("fake NVML says: {\"begin\":0} %s\n.\n", function); fflush(stdout); }
  for (int i = 0; i < n_delays; ++i)
    if (!strcmp(delays[i].function, "*") || !strcmp(delays[i].function, function)) usleep(delays[i].us);
  return judge(function, g, instance);
}

#define API __attribute__((visibility("default")))
#define ENTER(g) do { int rc_ = enter(__func__, (g), -1); if (rc_) return rc_; } while (0)
#define ENTER_DEVICE(d) do { int rc_ = enter(__func__, (d)->gpu, (d)->instance); if (rc_) return rc_; } while (0)
typedef struct handle* dev;

static int put(char* out, unsigned room, const char* text) {
  if (strlen(text) + 1 > room) return 7;
  strcpy(out, text);
  return 0;
}

/* As a driver without persistence: its first user waits for the GPUs to come up, and they go down with the last one. */
static void wake(void) {
  char path[1100];
  snprintf(path, sizeof path, "%s.awake", conf_path);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);  /* kept open, and locked, for as long as this process lives */
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) usleep(wakes_us);
  if (fd >= 0) flock(fd, LOCK_SH);
}

API int nvmlInit_v2(void) {
  ENTER(NULL);
  if (wakes_us) wake();
  if (init_rc) return init_rc;
  initialised = 1;
  return 0;
}
API int nvmlShutdown(void) { return 0; }
API int nvmlSystemGetDriverVersion(char* v, unsigned n) { count_call(__func__); return put(v, n, driver); }
API int nvmlSystemGetNVMLVersion(char* v, unsigned n) { count_call(__func__); return put(v, n, nvml_version); }
API int nvmlDeviceGetCount_v2(unsigned* count) {
  ENTER(NULL);
  *count = n_listed;
  return 0;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned i, dev* out) {
  ENTER(i < MAX_GPUS ? &gpus[i] : NULL);
  if (i >= (unsigned)n_listed) return 2;
  *out = &gpus[i].handle;
  return 0;
}
/* What befalls the handle of a GPU befalls it however it is asked for. */
API int nvmlDeviceGetHandleByPciBusId_v2(const char* address, dev* out) {
  unsigned asked[3], has[3];
  ENTER(NULL);
  if (sscanf(address, "%x:%x:%x", &asked[0], &asked[1], &asked[2]) != 3) return 2;
  for (int i = 0; i < n_listed; ++i) {
    if (sscanf(gpus[i].pci, "%x:%x:%x", &has[0], &has[1], &has[2]) != 3 || memcmp(asked, has, sizeof has)) continue;
    int rc = judge("nvmlDeviceGetHandleByIndex_v2", &gpus[i], -1);
    if (!rc) *out = &gpus[i].handle;
    return rc;
  }
  return 6;
}
API int nvmlDeviceGetUUID(dev d, char* out, unsigned n) {
  ENTER_DEVICE(d);
  return put(out, n, d->instance < 0 ? d->gpu->uuid : d->gpu->instance[d->instance].uuid);
}
API int nvmlDeviceGetName(dev d, char* out, unsigned n) {
  ENTER_DEVICE(d);
  char name[160];
  if (d->instance < 0) snprintf(name, sizeof name, "%s", d->gpu->name);
  else snprintf(name, sizeof name, "%s MIG %s", d->gpu->name, d->gpu->instance[d->instance].profile);
  return put(out, n, name);
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
static int put_pci(struct pci* p, const char* address) {
  memset(p, 0, sizeof *p);
  snprintf(p->bus_id, sizeof p->bus_id, "%s", address);
  sscanf(address, "%x:%x:%x", &p->domain, &p->bus, &p->device);
  p->id = 0x20b210de;
  return 0;
}
API int nvmlDeviceGetPciInfo_v3(dev d, struct pci* p) { ENTER_DEVICE(d); return put_pci(p, d->gpu->pci); }
API int nvmlDeviceGetMinorNumber(dev d, unsigned* minor) { ENTER_DEVICE(d); *minor = d->gpu->minor; return 0; }

static void sizes(dev d, unsigned long long* total, unsigned long long* reserved, unsigned long long* used) {
  struct instance* in = d->instance < 0 ? NULL : &d->gpu->instance[d->instance];
  *total = (in ? in->mib : d->gpu->total) << 20;
  *reserved = (in ? 0 : d->gpu->reserved) << 20;
  *used = (in ? in->used : d->gpu->used) << 20;
}
struct memory { unsigned long long total, free, used; };
API int nvmlDeviceGetMemoryInfo(dev d, struct memory* m) {
  ENTER_DEVICE(d);
  unsigned long long reserved;
  sizes(d, &m->total, &reserved, &m->used);
  m->free = m->total - m->used;
  return 0;
}
API int nvmlDeviceGetUtilizationRates(dev d, unsigned* rates) {
  ENTER_DEVICE(d);
  if (d->gpu->mig) return 3;
  rates[0] = d->gpu->util[0];
  rates[1] = d->gpu->util[1];
  return 0;
}
API int nvmlDeviceGetTemperature(dev d, int sensor, unsigned* t) {
  ENTER_DEVICE(d);
  *t = d->gpu->temperature;
  return sensor ? 2 : 0;
}
API int nvmlDeviceGetPowerUsage(dev d, unsigned* mw) { ENTER_DEVICE(d); *mw = d->gpu->power * 1000; return 0; }
API int nvmlDeviceGetComputeMode(dev d, int* mode) { ENTER_DEVICE(d); *mode = d->gpu->mode; return 0; }

/* Fills a process list with entries of `size` bytes; what lies behind the fields we know is filled with a pattern. */
static int list(const char* function, dev d, char which, unsigned size, unsigned* count, void* out) {
  int rc = enter(function, d->gpu, d->instance);
  if (rc) return rc;
  struct gpu* g = d->gpu;
  unsigned found = 0, room = *count;
  for (int i = 0; i < g->processes; ++i) {
    struct process* p = &g->process[i];
    if (p->list != which) continue;
    if (d->instance >= 0 && (p->gi != g->instance[d->instance].gi || p->ci != g->instance[d->instance].ci)) continue;
    if (found < room && out) {
      char* entry = (char*)out + (size_t)found * size;
      memset(entry, 0xA5, size);
      memcpy(entry, &p->pid, 4);
      memcpy(entry + 8, &p->bytes, 8);
      if (size >= 24) { memcpy(entry + 16, &p->gi, 4); memcpy(entry + 20, &p->ci, 4); }
    }
    ++found;
  }
  *count = found;
  return found > room ? 7 : 0;
}
API int nvmlDeviceGetComputeRunningProcesses(dev d, unsigned* n, void* out) { return list(__func__, d, 'c', 16, n, out); }
API int nvmlDeviceGetGraphicsRunningProcesses(dev d, unsigned* n, void* out) { return list(__func__, d, 'g', 16, n, out); }

#ifndef FAKE_MINIMAL
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
API int nvmlDeviceGetMemoryInfo_v2(dev d, struct memory_v2* m) {
  ENTER_DEVICE(d);
  if (m->version != (sizeof *m | 2u << 24)) return 25;
  unsigned long long used;
  sizes(d, &m->total, &m->reserved, &used);
  m->free = m->total - m->reserved - used;
  m->used = used + m->reserved;                            /* the function's prose: reserved is included */
  return 0;
}
struct temperature { unsigned version, sensor; int celsius; };
API int nvmlDeviceGetTemperatureV(dev d, struct temperature* t) {
  ENTER_DEVICE(d);
  if (t->version != (sizeof *t | 1u << 24)) return 25;
  t->celsius = d->gpu->temperature;
  return 0;
}
API int nvmlDeviceGetEnforcedPowerLimit(dev d, unsigned* mw) { ENTER_DEVICE(d); *mw = d->gpu->power_limit * 1000; return 0; }
API int nvmlDeviceGetDisplayActive(dev d, int* active) { ENTER_DEVICE(d); *active = d->gpu->display; return 0; }
API int nvmlDeviceGetDisplayMode(dev d, int* mode) { ENTER_DEVICE(d); *mode = d->gpu->monitor; return 0; }
API int nvmlDeviceGetSerial(dev d, char* out, unsigned n) {
  ENTER_DEVICE(d);
  return d->gpu->serial[0] ? put(out, n, d->gpu->serial) : 3;
}
API int nvmlDeviceGetComputeRunningProcesses_v2(dev d, unsigned* n, void* out) { return list(__func__, d, 'c', 24, n, out); }
API int nvmlDeviceGetGraphicsRunningProcesses_v2(dev d, unsigned* n, void* out) { return list(__func__, d, 'g', 24, n, out); }
API int nvmlDeviceGetComputeRunningProcesses_v3(dev d, unsigned* n, void* out) {
  return list(__func__, d, 'c', stride, n, out);
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(dev d, unsigned* n, void* out) {
  return list(__func__, d, 'g', stride, n, out);
}
API int nvmlDeviceGetMPSComputeRunningProcesses_v3(dev d, unsigned* n, void* out) {
  return list(__func__, d, 'm', stride, n, out);
}

struct field { unsigned id, scope; long long timestamp, latency; unsigned type; int rc; unsigned long long value; };
API int nvmlDeviceGetFieldValues(dev d, int n, struct field* f) {
  ENTER_DEVICE(d);
  for (int i = 0; i < n; ++i) {
    unsigned value = 0;
    f[i].rc = 0;
    switch (f[i].id) {
      case 147: value = d->gpu->nvswitch; break;
      case 230: value = d->gpu->recovery; break;
      case 144: value = d->gpu->remap_pending; break;
      case 145: value = d->gpu->remap_failed; break;
      case 185: case 186: value = d->gpu->power * 1000; break;
      case 190: value = d->gpu->power_limit * 1000; break;
      default: f[i].rc = 3;
    }
    if (old_fields && f[i].id != 147) f[i].rc = 3;
    f[i].type = 1;
    f[i].value = 0xdddddddd00000000ULL | value;
  }
  return 0;
}
struct fabric { unsigned version; char cluster[16]; int status; unsigned clique; unsigned char state; unsigned health; };
API int nvmlDeviceGetGpuFabricInfoV(dev d, struct fabric* f) {
  ENTER_DEVICE(d);
  if (f->version != (sizeof *f | 2u << 24)) return 25;
  if (d->gpu->fabric_state == 0) return 3;
  f->state = d->gpu->fabric_state;
  f->status = d->gpu->fabric_status;
  return 0;
}
API int nvmlDeviceGetCurrentClocksEventReasons(dev d, unsigned long long* bits) {
  ENTER_DEVICE(d);
  *bits = d->gpu->slowed;
  return 0;
}
API int nvmlDeviceGetHandleByUUID(const char* uuid, dev* out) {
  for (int i = 0; i < n_listed; ++i) {
    if (strcmp(gpus[i].uuid, uuid)) continue;
    ENTER(&gpus[i]);
    *out = &gpus[i].handle;
    return 0;
  }
  return 6;
}
API int nvmlDeviceGetAccountingMode(dev d, int* mode) { ENTER_DEVICE(d); *mode = d->gpu->accounting; return 0; }
API int nvmlDeviceGetAccountingPids(dev d, unsigned* count, unsigned* pids) {
  ENTER_DEVICE(d);
  unsigned room = *count;
  *count = d->gpu->accounts;
  if (!d->gpu->accounting) return 3;
  if (room < *count) return 7;
  for (unsigned i = 0; i < *count; ++i) pids[i] = d->gpu->account[i].pid;
  return 0;
}
struct stats { unsigned gpu, memory; unsigned long long max_memory, time_ms, start_us; unsigned running, reserved[5]; };
API int nvmlDeviceGetAccountingStats(dev d, unsigned pid, struct stats* s) {
  ENTER_DEVICE(d);
  for (int i = 0; i < d->gpu->accounts; ++i) {
    if (d->gpu->account[i].pid != pid || pid == 0) continue;   /* pid 0: listed, but fallen out of the ring */
    memset(s, 0xA5, sizeof *s);
    s->max_memory = d->gpu->account[i].bytes;
    s->start_us = d->gpu->account[i].started_us;
    return 0;
  }
  return 6;
}
API int nvmlDeviceGetMigMode(dev d, unsigned* current, unsigned* pending) {
  ENTER_DEVICE(d);
  *current = *pending = d->gpu->mig;
  return 0;
}
API int nvmlDeviceGetMaxMigDeviceCount(dev d, unsigned* n) { ENTER_DEVICE(d); *n = 7; return 0; }
API int nvmlDeviceGetMigDeviceHandleByIndex(dev d, unsigned i, dev* out) {
  ENTER_DEVICE(d);
  if (i % 2) return 6;                                     /* holes: instances lie at the even indices */
  if (i / 2 >= (unsigned)d->gpu->instances) return 6;
  *out = &d->gpu->instance[i / 2].handle;
  return 0;
}
static struct instance* mig(dev d) { return d->instance < 0 ? NULL : &d->gpu->instance[d->instance]; }
API int nvmlDeviceGetGpuInstanceId(dev d, unsigned* id) { ENTER_DEVICE(d); if (!mig(d)) return 2; *id = mig(d)->gi; return 0; }
API int nvmlDeviceGetComputeInstanceId(dev d, unsigned* id) {
  ENTER_DEVICE(d);
  if (!mig(d)) return 2;
  *id = mig(d)->ci;
  return 0;
}
struct attributes { unsigned sm, copy, dec, enc, jpeg, ofa, gpu_slices, compute_slices; unsigned long long mib; };
API int nvmlDeviceGetAttributes_v2(dev d, struct attributes* a) {
  ENTER_DEVICE(d);
  if (!mig(d)) return 3;
  memset(a, 0, sizeof *a);
  a->gpu_slices = mig(d)->gpu_slices;
  a->compute_slices = mig(d)->compute_slices;
  a->mib = mig(d)->mib;
  return 0;
}
API int nvmlDeviceGetNvLinkState(dev d, unsigned link, int* active) {
  ENTER_DEVICE(d);
  if (link >= MAX_LINKS) return 2;
  *active = d->gpu->links[link][0] != 0;
  return 0;
}
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(dev d, unsigned link, struct pci* p) {
  ENTER_DEVICE(d);
  return put_pci(p, d->gpu->links[link]);
}
API int nvmlDeviceGetNvLinkRemoteDeviceType(dev d, unsigned link, int* type) {
  ENTER_DEVICE(d);
  *type = strncmp(d->gpu->links[link], "FFFF", 4) ? 0 : 2;
  return 0;
}
API int nvmlDeviceGetP2PStatus(dev a, dev b, int caps, int* status) {
  ENTER(a->gpu);
  *status = caps == 2 ? a->gpu->p2p[b->gpu->index] : 5;
  return 0;
}
API int nvmlDeviceGetCpuAffinityWithinScope(dev d, unsigned words, unsigned long* set, unsigned scope) {
  ENTER_DEVICE(d);
  if (d->gpu->cpu_first < 0) return 3;
  memset(set, 0, words * sizeof *set);
  int first = scope ? 0 : d->gpu->cpu_first;               /* the socket: everything up to the node's last */
  for (int c = first; c <= d->gpu->cpu_last; ++c) set[c / 64] |= 1UL << c % 64;
  return 0;
}
struct event { dev device; unsigned long long type, data; unsigned gi, ci; };
API int nvmlEventSetCreate(void** set) { static int it; count_call(__func__); *set = &it; return 0; }
API int nvmlDeviceRegisterEvents(dev d, unsigned long long types, void* set) {
  (void)types;
  (void)set;
  ENTER_DEVICE(d);
  return 0;
}
API int nvmlEventSetWait_v2(void* set, struct event* e, unsigned timeout) {
  (void)set; (void)timeout;
  ENTER(NULL);
  for (int i = 0; i < n_gpus; ++i) {
    if (!gpus[i].xid_pending) continue;
    gpus[i].xid_pending = 0;
    memset(e, 0, sizeof *e);
    e->device = &gpus[i].handle;
    e->type = 8;
    e->data = gpus[i].xid;
    return 0;
  }
  return 10;
}
#endif
