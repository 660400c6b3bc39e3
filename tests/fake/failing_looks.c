// Preloaded into one program: the look at the file system that THOLE_FAILING_LOOK names by its number (from 1) fails with
// THOLE_FAILING_ERRNO, as where descriptors or memory are short for a moment. How many looks there were is written to the file
// THOLE_LOOKS at the end. What the program starts looks as usual. With THOLE_FAILING_FILES it is the reading, writing, syncing
// and locking of files that is counted and fails, in the place of looks; with THOLE_FAILING_IN_PARTS a reading gives half of
// what it could first, and it is the next one that fails. THOLE_FAILING_NAMES, such as wake:lanes/0.mail: each opening of a
// path that ends so fails instead.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

static atomic_long looks;
static long failing;
static int why, main_process, of_files, in_parts;
static char counted[4096], names[4096];

__attribute__((constructor)) static void begin(void) {
  const char* at = getenv("THOLE_FAILING_LOOK");
  const char* with = getenv("THOLE_FAILING_ERRNO");
  const char* file = getenv("THOLE_LOOKS");
  failing = at ? atol(at) : 0;
  why = with ? atoi(with) : EMFILE;
  const char* named = getenv("THOLE_FAILING_NAMES");
  if (file) snprintf(counted, sizeof counted, "%s", file);
  if (named) snprintf(names, sizeof names, "%s", named);
  of_files = getenv("THOLE_FAILING_FILES") != NULL;
  in_parts = getenv("THOLE_FAILING_IN_PARTS") != NULL;
  main_process = getpid();
  unsetenv("LD_PRELOAD");
  atomic_store(&looks, 0);
}

__attribute__((destructor)) static void end(void) {
  if (!*counted || getpid() != main_process) return;
  const long all = atomic_load(&looks);
  FILE* out = fopen(counted, "w");
  if (!out) return;
  fprintf(out, "%ld\n", all);
  fclose(out);
}

static int fails_of(int files) {
  if (files != of_files || atomic_fetch_add(&looks, 1) + 1 != failing) return 0;
  errno = why;
  return 1;
}
static int fails(void) { return fails_of(0); }
static int is_refused(void) { return fails_of(1); }
static int fails_to_open(const char* path) {
  if (!*names) return fails();
  const size_t all = strlen(path);
  for (const char* name = names; *name; name += strspn(name, ":")) {
    const size_t size = strcspn(name, ":");
    if (size <= all && strncmp(path + all - size, name, size) == 0) {
      errno = why;
      return 1;
    }
    name += size;
  }
  return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE(flags) \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char* path, int flags, ...) { MODE(flags) return fails_to_open(path) ? -1 : REAL(open)(path, flags, mode); }
int open64(const char* path, int flags, ...) { MODE(flags) return fails_to_open(path) ? -1 : REAL(open64)(path, flags, mode); }
int openat(int in, const char* path, int flags, ...) {
  MODE(flags) return fails_to_open(path) ? -1 : REAL(openat)(in, path, flags, mode);
}
int openat64(int in, const char* path, int flags, ...) {
  MODE(flags) return fails_to_open(path) ? -1 : REAL(openat64)(in, path, flags, mode);
}
DIR* opendir(const char* path) { return fails() ? NULL : REAL(opendir)(path); }
DIR* fdopendir(int fd) { return fails() ? NULL : REAL(fdopendir)(fd); }
int stat(const char* path, struct stat* told) { return fails() ? -1 : REAL(stat)(path, told); }
int lstat(const char* path, struct stat* told) { return fails() ? -1 : REAL(lstat)(path, told); }
int fstat(int fd, struct stat* told) { return fails() ? -1 : REAL(fstat)(fd, told); }
int stat64(const char* path, struct stat64* told) { return fails() ? -1 : REAL(stat64)(path, told); }
int lstat64(const char* path, struct stat64* told) { return fails() ? -1 : REAL(lstat64)(path, told); }
int fstat64(int fd, struct stat64* told) { return fails() ? -1 : REAL(fstat64)(fd, told); }
int fstatat(int in, const char* path, struct stat* told, int flags) {
  return fails() ? -1 : REAL(fstatat)(in, path, told, flags);
}
int statx(int in, const char* path, int flags, unsigned mask, struct statx* told) {
  return fails() ? -1 : REAL(statx)(in, path, flags, mask, told);
}
int statfs(const char* path, struct statfs* told) { return fails() ? -1 : REAL(statfs)(path, told); }
int access(const char* path, int mode) { return fails() ? -1 : REAL(access)(path, mode); }
int faccessat(int in, const char* path, int mode, int flags) { return fails() ? -1 : REAL(faccessat)(in, path, mode, flags); }

ssize_t pread64(int fd, void* into, size_t size, off64_t at) {
  return is_refused() ? -1 : REAL(pread64)(fd, into, size, at);
}
ssize_t pwrite64(int fd, const void* from, size_t size, off64_t at) {
  return is_refused() ? -1 : REAL(pwrite64)(fd, from, size, at);
}
int fsync(int fd) { return is_refused() ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return is_refused() ? -1 : REAL(fdatasync)(fd); }
int ftruncate64(int fd, off64_t size) { return is_refused() ? -1 : REAL(ftruncate64)(fd, size); }
ssize_t pread(int fd, void* into, size_t size, off_t at) {
  if (!is_refused()) return REAL(pread)(fd, into, size, at);
  if (!in_parts || size < 2) return -1;
  ++failing;                                   // what follows
  return REAL(pread)(fd, into, size / 2, at);
}
ssize_t pwrite(int fd, const void* from, size_t size, off_t at) {
  return is_refused() ? -1 : REAL(pwrite)(fd, from, size, at);
}
int ftruncate(int fd, off_t size) { return is_refused() ? -1 : REAL(ftruncate)(fd, size); }
int fallocate(int fd, int how, off_t at, off_t size) { return is_refused() ? -1 : REAL(fallocate)(fd, how, at, size); }

#undef fcntl
static int lock_of_file(int fd, int how, void* lock, const char* name) {
  if ((how == F_SETLK || how == F_GETLK || how == F_OFD_SETLK || how == F_OFD_GETLK) && is_refused()) return -1;
  return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, name))(fd, how, lock);
}
#define FCNTL(name)                          \
  int name(int fd, int how, ...) {           \
    va_list more;                            \
    va_start(more, how);                     \
    void* with = va_arg(more, void*);        \
    va_end(more);                            \
    return lock_of_file(fd, how, with, #name); \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
