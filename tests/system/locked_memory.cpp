// A process whose memory nobody can look at (/proc/PID/cmdline, environ): a thread of it reads a page that its file system
// does not bring, which takes mmap_lock, and another one waits for that lock to map more; then every reader waits as well.
//
//   locked_memory serve DIRECTORY taken|untaken|unflushed|program
//       mounts such a file system there; prints "up"
//   locked_memory lock FILE [MORE]
//       so many more processes share that memory; prints the pids of all
//
// The file system has a file "page". Where the request for the page is taken, not even KILL ends who waits for it; untaken it
// does. Unflushed, nor does it end who closes a file of it. Or a file "program", of which only the first page comes: who
// executes it has a new memory and never anything in it.
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t page_size = 4096;
constexpr std::uint64_t the_root = FUSE_ROOT_ID, the_page = 2;

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

void reply(int device, std::uint64_t request, int error, const void* body = nullptr, std::size_t size = 0) {
  std::vector<char> answer(sizeof(fuse_out_header) + size);
  const fuse_out_header header{static_cast<std::uint32_t>(answer.size()), error, request};
  std::memcpy(answer.data(), &header, sizeof header);
  if (size > 0) std::memcpy(answer.data() + sizeof header, body, size);
  if (::write(device, answer.data(), answer.size()) < 0) std::perror("write to /dev/fuse");
}

constexpr std::size_t program_size = 1u << 24;   // longer than ours is: what is behind it is never asked for

fuse_attr attributes(std::uint64_t node) {
  fuse_attr about{};
  about.ino = node;
  about.nlink = 1;
  about.blksize = page_size;
  about.mode = node == the_root ? S_IFDIR | 0755 : S_IFREG | 0755;
  about.size = node == the_root ? 0 : program_size;
  return about;
}

void answer(int device, const fuse_in_header& request, bool is_program) {
  constexpr std::uint64_t for_ever = 1u << 30;
  switch (request.opcode) {
    case FUSE_INIT: {
      fuse_init_out out{};
      out.major = FUSE_KERNEL_VERSION;
      out.minor = 31;
      out.max_write = page_size;
      return reply(device, request.unique, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
      fuse_entry_out out{};
      out.nodeid = the_page;
      out.attr_valid = out.entry_valid = for_ever;
      out.attr = attributes(the_page);
      return reply(device, request.unique, 0, &out, sizeof out);
    }
    case FUSE_GETATTR: {
      fuse_attr_out out{};
      out.attr_valid = for_ever;
      out.attr = attributes(request.nodeid);
      return reply(device, request.unique, 0, &out, sizeof out);
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
      fuse_open_out out{};
      return reply(device, request.unique, 0, &out, sizeof out);
    }
    case FUSE_READ: {
      if (!is_program) return;
      char first[page_size];
      const int ours = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
      if (::read(ours, first, sizeof first) != sizeof first) fail("/proc/self/exe");
      ::close(ours);
      return reply(device, request.unique, 0, first, sizeof first);
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR: return reply(device, request.unique, 0);
    default: reply(device, request.unique, -ENOSYS);
  }
}

int serve(const char* directory, const std::string& how) {
  const bool takes_all = how == "taken" || how == "unflushed", flushes = how != "unflushed", is_program = how == "program";
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0) fail("/dev/fuse");
  const std::string options = "fd=" + std::to_string(device) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
  if (::mount("locked_memory", directory, "fuse", 0, options.c_str()) != 0) fail(directory);
  std::puts("up");
  std::fflush(stdout);
  std::vector<char> request(1u << 17);
  for (bool closed = false; takes_all || !closed;) {
    const ssize_t size = ::read(device, request.data(), request.size());
    if (size < 0 && (errno == EINTR || errno == ENOENT)) continue;
    if (size < 0) return 0;                      // unmounted
    fuse_in_header header;
    std::memcpy(&header, request.data(), sizeof header);
    if (flushes || header.opcode != FUSE_FLUSH) answer(device, header, is_program);
    closed = header.opcode == (is_program ? FUSE_GETXATTR : FUSE_FLUSH);   // of its capabilities, behind the first page
  }
  for (;;) ::pause();
}

int wait_for_end(void*) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) ::pause();
}

int lock(const char* path, int more) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC), memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (file < 0 || memory < 0) fail(path);
  void* page = ::mmap(nullptr, page_size, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) fail("mmap");
  ::close(file);                                 // now: the end of the process would wait for an answer
  constexpr std::size_t stack = 4 * page_size;
  std::vector<char> stacks(stack * static_cast<std::size_t>(more));
  for (std::size_t end = stack; end <= stacks.size(); end += stack) {
    const pid_t pid = ::clone(wait_for_end, stacks.data() + end, CLONE_VM | SIGCHLD, nullptr);
    if (pid < 0) fail("clone");
    std::printf("%d\n", static_cast<int>(pid));
  }
  std::printf("%d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  std::thread reader([&] {
    char byte;
    if (::pread(memory, &byte, 1, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(page))) < 0) fail("/proc/self/mem");
  });
  for (;;) {                                     // until it waits for the reader
    void* another = ::mmap(nullptr, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::munmap(another, page_size);
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "serve" && count == 4) return serve(words[2], words[3]);
  if (what == "lock" && count == 3) return lock(words[2], 0);
  if (what == "lock" && count == 4) return lock(words[2], std::atoi(words[3]));
  std::fputs("usage: locked_memory serve DIRECTORY taken|untaken|unflushed|program | lock FILE [MORE]\n", stderr);
  return 2;
}
