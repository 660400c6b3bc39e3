/* Preloaded into thole: keeps in FAKE_DISK what a disk would surely have of FAKE_DISK_OF after a loss of power. A file is there
 * as it was when it was last synced, and one that nobody ever synced is not; a new name counts once its directory was synced.
 * One copier at a time, so that no older copy comes later.
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

static char named_before[256], named_now[256]; /* the last file of FAKE_DISK_OF that was renamed */

static const char *name_in_it(const char *path) {
  const char *of = getenv("FAKE_DISK_OF");
  if (!of || strncmp(path, of, strlen(of)) != 0 || path[strlen(of)] != '/') return NULL;
  return strchr(path + strlen(of) + 1, '/') ? NULL : path + strlen(of) + 1;
}

static void keep_names(const char *disk) {
  char from[8192], to[8192];
  if (!named_before[0]) return;
  snprintf(from, sizeof from, "%s/%s", disk, named_before);
  snprintf(to, sizeof to, "%s/%s", disk, named_now);
  named_before[0] = '\0';
  const int lock = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  flock(lock, LOCK_EX);
  rename(from, to);
  close(lock);
}

static void keep(int fd) {
  const char *disk = getenv("FAKE_DISK"), *of = getenv("FAKE_DISK_OF");
  char link[64], path[4096], target[8192], fresh[8200], part[65536];
  struct stat about;
  if (!disk || !of || fstat(fd, &about) != 0) return;
  if (S_ISDIR(about.st_mode)) return keep_names(disk);
  if (!S_ISREG(about.st_mode)) return;
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

/* A name is that of a file in the directory `in`, where that is the one. */
static const char *name_at(int in, const char *path) {
  char link[64], directory[4096];
  const char *of = getenv("FAKE_DISK_OF");
  if (in == AT_FDCWD || strchr(path, '/')) return name_in_it(path);
  snprintf(link, sizeof link, "/proc/self/fd/%d", in);
  const ssize_t length = readlink(link, directory, sizeof directory - 1);
  if (!of || length <= 0) return NULL;
  directory[length] = '\0';
  return strcmp(directory, of) == 0 ? path : NULL;
}

static int renamed(int result, int from_in, const char *from, int to_in, const char *to) {
  const char *before = name_at(from_in, from), *now = name_at(to_in, to);
  if (result == 0 && before && now) {
    snprintf(named_before, sizeof named_before, "%s", before);
    snprintf(named_now, sizeof named_now, "%s", now);
  }
  return result;
}
int rename(const char *from, const char *to) {
  return renamed(((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to), AT_FDCWD, from, AT_FDCWD,
                 to);
}
int renameat(int from_in, const char *from, int to_in, const char *to) {
  int (*const real)(int, const char *, int, const char *) =
      (int (*)(int, const char *, int, const char *))dlsym(RTLD_NEXT, "renameat");
  return renamed(real(from_in, from, to_in, to), from_in, from, to_in, to);
}
int renameat2(int from_in, const char *from, int to_in, const char *to, unsigned flags) {
  int (*const real)(int, const char *, int, const char *, unsigned) =
      (int (*)(int, const char *, int, const char *, unsigned))dlsym(RTLD_NEXT, "renameat2");
  return renamed(real(from_in, from, to_in, to, flags), from_in, from, to_in, to);
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
