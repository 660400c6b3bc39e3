// A clock that a test can set: preloaded into a program, it moves the time of day by the seconds in the file FAKE_CLOCK names.
//
// How this works. The steady clocks are left alone. A timer on the time of day is armed on the kernel's with the difference
// taken off again. When the file changes, which a thread waits for, every timer that asked for it (TFD_TIMER_CANCEL_ON_SET)
// becomes readable and its next read fails with ECANCELED, as the kernel does when somebody sets the clock; those that did not
// ask are armed anew. The system's own clock is never touched: others use it.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int most = 1024;

struct Timer {
  bool of_day = false;
  int flags = 0;
  itimerspec wanted{};                           // by the moved clock
};
Timer timers[most];
std::atomic<bool> was_set[most];                 // the clock, since the timer was armed; read() looks without the mutex
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<long> shift{0};

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

void arm(int fd) {
  static const auto settime = real<int (*)(int, int, const itimerspec*, itimerspec*)>("timerfd_settime");
  itimerspec value = timers[fd].wanted;
  if (was_set[fd]) {
    value = {};
    value.it_value.tv_nsec = 1;                  // long ago
  } else if (value.it_value.tv_sec != 0 || value.it_value.tv_nsec != 0) {
    value.it_value.tv_sec = value.it_value.tv_sec > shift ? value.it_value.tv_sec - shift : 1;
  }
  settime(fd, TFD_TIMER_ABSTIME, &value, nullptr);
}

long shift_now() {
  const char* path = std::getenv("FAKE_CLOCK");
  std::FILE* file = path ? std::fopen(path, "re") : nullptr;
  long seconds = 0;
  if (file && std::fscanf(file, "%ld", &seconds) != 1) seconds = shift;
  if (file) std::fclose(file);
  return seconds;
}

void* watch(void*) {
  const int inotify = ::inotify_init1(IN_CLOEXEC);
  ::inotify_add_watch(inotify, std::getenv("FAKE_CLOCK"), IN_CLOSE_WRITE);
  char events[4096];
  for (;;) {
    const long now = shift_now();
    ::pthread_mutex_lock(&mutex);
    if (now != shift) {
      shift = now;
      for (int fd = 0; fd < most; ++fd) {
        if (!timers[fd].of_day || (timers[fd].flags & TFD_TIMER_ABSTIME) == 0) continue;
        was_set[fd] = (timers[fd].flags & TFD_TIMER_CANCEL_ON_SET) != 0;
        arm(fd);
      }
    }
    ::pthread_mutex_unlock(&mutex);
    if (::read(inotify, events, sizeof events) <= 0) return nullptr;
  }
}

// A child of fork has no thread of its parent's: each process starts its own.
void start_watching() {
  static std::atomic<pid_t> watched{0};
  if (!std::getenv("FAKE_CLOCK") || watched.exchange(::getpid()) == ::getpid()) return;
  shift = shift_now();
  static const int forks = ::pthread_atfork(nullptr, nullptr, [] { ::pthread_mutex_init(&mutex, nullptr); });
  static_cast<void>(forks);                      // the watcher may have it in that moment, and is not in the child
  sigset_t all, before;                          // signals are for the program's own thread
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  ::pthread_create(&thread, nullptr, watch, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_detach(thread);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto gettime = real<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int result = gettime(clock, time);
  if (clock == CLOCK_REALTIME && result == 0) {
    start_watching();
    time->tv_sec += shift;
  }
  return result;
}

int timerfd_create(clockid_t clock, int flags) noexcept {
  static const auto create = real<int (*)(clockid_t, int)>("timerfd_create");
  start_watching();
  const int fd = create(clock, flags);
  if (fd >= 0 && fd < most) {
    timers[fd] = Timer{clock == CLOCK_REALTIME, 0, {}};
    was_set[fd] = false;
  }
  return fd;
}

int timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* old) noexcept {
  static const auto settime = real<int (*)(int, int, const itimerspec*, itimerspec*)>("timerfd_settime");
  if (fd < 0 || fd >= most || !timers[fd].of_day || (flags & TFD_TIMER_ABSTIME) == 0) return settime(fd, flags, value, old);
  ::pthread_mutex_lock(&mutex);
  timers[fd] = Timer{true, flags, *value};
  was_set[fd] = false;
  arm(fd);
  ::pthread_mutex_unlock(&mutex);
  return 0;
}

ssize_t read(int fd, void* bytes, size_t size) {
  static const auto read_it = real<ssize_t (*)(int, void*, size_t)>("read");
  const ssize_t got = read_it(fd, bytes, size);
  if (got <= 0 || fd < 0 || fd >= most || !was_set[fd].exchange(false)) return got;
  errno = ECANCELED;
  return -1;
}
}
#pragma GCC visibility pop
