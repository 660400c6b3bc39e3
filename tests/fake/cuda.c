/* A fake libcuda.so.1 for the tests of placeholders: shows the GPUs that CUDA_VISIBLE_DEVICES names by UUID.
 *
 * The file named by THOLE_FAKE_CUDA, one statement a line:
 *   rc FUNCTION CODE       what that function returns
 *   hang|crash FUNCTION    what happens in it
 *   wait FUNCTION FIFO     it waits until somebody writes there
 *   show N                 how many GPUs it admits to
 * Each context made is noted in the file beside it, ".contexts": "UUID PID".
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_GPUS = 16, NOT_INITIALIZED = 3, INVALID_DEVICE = 101 };
#define EXPORT __attribute__((visibility("default")))

static char uuids[MAX_GPUS][64];
static int count, initialised;

static const char* configuration(void) {
  const char* path = getenv("THOLE_FAKE_CUDA");
  return path ? path : "/dev/null";
}

/* What the configuration says of a function: its return code, unless it never returns. */
static int asked(const char* function) {
  char line[256], action[16], name[64], fifo[160];
  int code = 0, rc = 0;
  FILE* file = fopen(configuration(), "r");
  while (file && fgets(line, sizeof line, file)) {
    code = 0;
    if (sscanf(line, "%15s %63s %d", action, name, &code) < 2 || strcmp(name, function)) continue;
    if (!strcmp(action, "rc")) rc = code;
    if (!strcmp(action, "crash")) abort();
    if (!strcmp(action, "hang")) for (;;) pause();
    FILE* open_now = !strcmp(action, "wait") && sscanf(line, "%*s %*s %159s", fifo) == 1 ? fopen(fifo, "r") : NULL;
    if (open_now) fclose(open_now);
  }
  if (file) fclose(file);
  return rc;
}

static int shown(void) {
  char line[256];
  int n = count;
  FILE* file = fopen(configuration(), "r");
  while (file && fgets(line, sizeof line, file)) (void)!sscanf(line, "show %d", &n);
  if (file) fclose(file);
  return n;
}

EXPORT int cuInit(unsigned flags) {
  int rc = asked("cuInit");
  char* visible = strdup(getenv("CUDA_VISIBLE_DEVICES") ? getenv("CUDA_VISIBLE_DEVICES") : "");
  char* rest = visible;
  if (rc || flags) return rc ? rc : 1;
  count = 0;
  for (char* word; (word = strsep(&rest, ",")) && *word && count < MAX_GPUS;)
    snprintf(uuids[count++], sizeof uuids[0], "%s", word);
  free(visible);
  initialised = 1;
  return 0;
}

EXPORT int cuDeviceGetCount(int* n) {
  *n = shown();
  return initialised ? asked("cuDeviceGetCount") : NOT_INITIALIZED;
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return !initialised ? NOT_INITIALIZED : ordinal < 0 || ordinal >= count ? INVALID_DEVICE : asked("cuDeviceGet");
}

EXPORT int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  const char* text = uuids[device] + strlen("GPU-");
  for (int i = 0; i < 16; ++i) {
    unsigned byte = 0;
    while (*text == '-') ++text;
    if (sscanf(text, "%2x", &byte) != 1) return INVALID_DEVICE;
    uuid[i] = (unsigned char)byte;
    text += 2;
  }
  return asked("cuDeviceGetUuid_v2");
}

EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  (void)device;
  return flags == 4 ? asked("cuDevicePrimaryCtxSetFlags_v2") : 1;
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  int rc = asked("cuDevicePrimaryCtxRetain");
  char path[4096];
  *context = &uuids[device];
  if (rc) return rc;
  snprintf(path, sizeof path, "%s.contexts", configuration());
  FILE* file = fopen(path, "a");
  if (file) {
    fprintf(file, "%s %d\n", uuids[device], (int)getpid());
    fclose(file);
  }
  return 0;
}
