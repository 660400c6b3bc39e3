/* What NVIDIA ships for linking on machines without a driver: it loads, says so on stdout, and does nothing. */
#include <stdio.h>

#define API __attribute__((visibility("default")))

static int refuse(void) {
  printf("WARNING: this is a stub library\n");
  fflush(stdout);
  return 12;                                               /* library not found */
}
API int nvmlInit_v2(void) { return refuse(); }
API int nvmlDeviceGetCount_v2(unsigned* count) { (void)count; return refuse(); }
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) { (void)index; (void)device; return refuse(); }
