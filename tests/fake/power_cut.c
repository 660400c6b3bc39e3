/* Preloaded into thole: keeps in FAKE_DISK what a disk would surely have of FAKE_DISK_OF after a loss of power. A file is there
 * as it
   was when it was last synced, and one that nobody ever synced is not. One copier at a time, so that no older copy comes later.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void keep(int fd) {
  const char *disk = getenv("FAKE_DISK"), *of = getenv("FAKE_DISK_OF");
  char link[64], path[4096], target[8192], fresh[8200], part[65536];
  struct stat about;
  if (!disk || !of || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  if (strncmp(path, of, strlen(of)) != 0 || strchr(path + strlen(of) + 1, '/')) return; /* what lies in it, not below */
  snprintf(target, sizeof target, "%s/%s", disk, path + strlen(of) + 1);
  snprintf(fresh, sizeof fresh, "%s.new", target);
  const int lock = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  flock(lock, LOCK_EX);
  const int from = open(link, O_RDONLY | O_CLOEXEC), to = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  off_t at = 0;
  for (ssize_t n; (n = pread(from, part, sizeof part, at)) > 0 && write(to, part, (size_t)n) == n;) at += n;
  close(to);
  close(from);
  rename(fresh, target);
  close(lock);
}

int fdatasync(int fd) {
  const int result = ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
  if (result == 0) keep(fd);
  return result;
}
int fsync(int fd) {
  const int result = ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
  if (result == 0) keep(fd);
  return result;
}
