#include "cli/result_target.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/output.hpp"

namespace thole::cli {

namespace {

constexpr const char* not_written = "cannot write";

Error cannot_write(const std::string& name, int reason) {
  return Error(ErrorCode::unavailable, not_written).about(name).because(reason);
}

NamedFile target_of(const std::string& name) {
  if (name != "-") return find_named_file(name, not_written);
  NamedFile target;
  target.name = name;
  target.descriptor = STDOUT_FILENO;
  return target;
}

void check_descriptor(const NamedFile& target) {
  if (!is_given_to_write(target.descriptor)) throw cannot_write(target.name, errno);
}

// It is written anew beside it and renamed; else it is a device, a pipe or the like.
bool is_file(const NamedFile& target) { return !target.there || S_ISREG(target.about.st_mode); }

}  // namespace

void refuse_input_as_result(Context& context, std::string_view option, const std::string& name, const std::string& input) {
  struct stat result {}, read {};
  if (::stat(name.c_str(), &result) != 0 || !S_ISREG(result.st_mode)) return;
  for (const std::string& one : {context.wire.machine_file(), input})
    if ((one == "-" ? ::fstat(STDIN_FILENO, &read) : ::stat(one.c_str(), &read)) == 0 && is_one_file(result, read))
      throw Error(ErrorCode::usage, fmt::format("{} would write over what is read: {}", option, printable(name)))
          .hint("name another file");
}

void try_result(const std::string& name) {
  const NamedFile target = target_of(name);
  if (target.descriptor >= 0) return check_descriptor(target);
  if (!is_file(target)) return;
  const std::string beside = target.place() + fmt::format(".{}", ::getpid());
  try {
    write_file(beside, "");
  } catch (const Error& error) {   // of a name that nobody has typed
    throw cannot_write(name, error.sys_errno());
  }
  ::unlink(beside.c_str());
}

void write_result(const std::string& name, std::string_view text, Appending how) {
  const NamedFile target = target_of(name);
  if (target.descriptor >= 0) {
    check_descriptor(target);
    if (!put_bytes(target.descriptor, text)) throw cannot_write(name, errno);
    return;
  }
  if (is_file(target)) {
    const bool is_mine = target.there && target.about.st_uid == ::geteuid();   // it keeps its mode
    try {
      return write_file(target.place(), text, is_mine ? target.about.st_mode & 0777 : left_by_umask(0666));
    } catch (const Error& error) {
      throw cannot_write(name, error.sys_errno());
    }
  }
  const Fd file = open_to_append(target, how);
  if (!file || !write_all(file.get(), text)) throw cannot_write(name, errno);
}

}  // namespace thole::cli
