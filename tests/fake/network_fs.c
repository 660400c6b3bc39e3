/* Preloaded into thole: every file system says that it is NFS. (A real NFS mount needs a server and root.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/magic.h>
#include <sys/vfs.h>

int fstatfs(int fd, struct statfs *fs) {
  int (*real)(int, struct statfs *) = (int (*)(int, struct statfs *))dlsym(RTLD_NEXT, "fstatfs");
  int result = real(fd, fs);
  if (result == 0) fs->f_type = NFS_SUPER_MAGIC;
  return result;
}
