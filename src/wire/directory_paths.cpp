#include "wire/directory_paths.hpp"

#include <sys/stat.h>

#include <cctype>
#include <filesystem>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "host/gpu/file/search.hpp"
#include "host/own_directory.hpp"
#include "host/store/queue_dir.hpp"
#include "host/surroundings/host_name.hpp"
#include "wire/carry.hpp"

namespace thole::wire {

namespace {

namespace fs = std::filesystem;

constexpr const char* base = "/tmp";

bool is_directory_itself(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// By its first name where there is none, or one that others can look into.
std::string found_or_plain(const std::string& place, uid_t owner) {
  try {
    if (auto found = host::find_own_directory(place, owner)) return *found;
  } catch (const Error& error) {
    if (error.sys_errno() != 0) throw;
  }
  return fmt::format("{}/thole-{}", place, owner);
}

std::string as_name(const std::string& text) {
  std::string name = "machine-";
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ? c : '_';
  return name;
}

// Two files of one name are two machines.
std::string with_path(const std::string& name, const std::string& path) {
  std::error_code missing;
  const fs::path real = fs::canonical(path, missing);
  const std::uint64_t hash = fnv1a(missing ? path : real.string());
  return name.substr(name.rfind('/') + 1) + fmt::format("-{:08x}", static_cast<std::uint32_t>(hash ^ (hash >> 32)));
}

std::string not_absolute(const char* variable, const std::string& value) {
  return fmt::format("{} is \"{}\", no absolute path", variable, printable(value));
}

}  // namespace

DirectoryPaths::DirectoryPaths(const Settings& settings)
    : machine_(settings.machine), program_(settings.program), state_dir_(settings.state_dir), queue_dir_(settings.queue_dir),
      personal_dir_(settings.personal_dir), uid_(settings.uid) {
  while (personal_dir_.size() > 1 && personal_dir_.ends_with('/')) personal_dir_.pop_back();
  const auto variable = [&](const char* name) {
    const auto found = settings.environment.find(name);
    return found == settings.environment.end() ? std::string() : found->second;
  };
  const std::string home = variable("HOME"), state = variable("XDG_STATE_HOME");
  if (!home.empty() && !home.starts_with('/')) no_home_ = not_absolute("HOME", home);
  if (state.starts_with('/')) state_home_ = state;
  else if (home.starts_with('/')) state_home_ = home.substr(0, home.find_last_not_of('/') + 1) + "/.local/state";
  const std::pair<const char*, const char*> data_homes[] = {
      {"JUPYTER_DATA_DIR", "/kernels"}, {"XDG_DATA_HOME", "/jupyter/kernels"}, {"HOME", "/.local/share/jupyter/kernels"}};
  for (const auto& [name, below] : data_homes) {
    const std::string value = variable(name);
    if (value.empty()) continue;
    if (value.starts_with('/')) kernels_ = value.substr(0, value.find_last_not_of('/') + 1) + below;
    else no_kernels_ = not_absolute(name, value);   // Jupyter would seek them wherever it is started
    break;
  }
}

std::string DirectoryPaths::personal() const {
  return personal_dir_.empty() ? host::open_own_directory(base, host::name_another)
                               : host::open_named_directory(personal_dir_, host::name_another);
}

std::optional<std::string> DirectoryPaths::find_personal() const {
  if (personal_dir_.empty()) return host::find_own_directory(base, uid_);
  if (!is_directory_itself(personal_dir_)) return std::nullopt;
  return host::open_named_directory(personal_dir_, host::name_another);
}

host::ExpectedDirectory DirectoryPaths::expected_personal() const {
  if (personal_dir_.empty()) return host::expected_own_directory(base, uid_, host::name_another);
  return {find_personal().value_or(personal_dir_), ""};
}

std::string DirectoryPaths::plain_personal() const {
  return personal_dir_.empty() ? fmt::format("{}/thole-{}", base, uid_) : personal_dir_;
}

std::string DirectoryPaths::personal_or_none() const {
  try {
    return personal();
  } catch (const Error&) {
    return "";
  }
}

std::string DirectoryPaths::new_claim(const std::string& claim_id) const {
  return personal() + "/" + last_part(claim_id);
}

std::string DirectoryPaths::find_claim(const std::string& claim_id, uid_t owner) const {
  const bool is_named = owner == uid_ && !personal_dir_.empty();
  return (is_named ? personal_dir_ : found_or_plain(base, owner)) + "/" + last_part(claim_id);
}

std::string DirectoryPaths::machine_name(const std::string& file) const {
  const std::string name = machine_.substr(machine_.rfind('/') + 1);
  if (file.empty()) return as_name(name);
  const fs::path path(file);
  for (const std::string& shipped : host::machine_directories("", program_)) {
    std::error_code missing;
    if (path.extension() == ".json" && fs::equivalent(path.parent_path().empty() ? "." : path.parent_path(), shipped, missing))
      return as_name(path.stem().string());
  }
  return as_name(with_path(machine_, file));
}

host::QueuePaths DirectoryPaths::queue(const std::string& machine_name) const {
  host::QueuePaths paths;
  paths.named = queue_dir_;
  paths.state_home = state_home_;
  if (!no_home_.empty()) paths.no_state_home = no_home_;
  paths.host = host::host_name();
  paths.machine = machine_name;
  // The claims of a directory of their own have a queue of their own.
  if (!state_dir_.empty()) paths.machine += (machine_name.empty() ? "machine-" : "-") + with_path("claims", state_dir_);
  paths.uid = uid_;
  return paths;
}

std::vector<std::string> DirectoryPaths::all_own() const {
  const host::QueuePaths paths = queue("");
  std::vector<std::string> all{found_or_plain(base, uid_), found_or_plain(paths.temporary, uid_)};
  all.push_back(fmt::format("{}/{}", paths.var_lib, uid_));
  if (!state_home_.empty()) all.push_back(state_home_ + "/thole");
  for (const std::string& named : {personal_dir_, queue_dir_, state_dir_})
    if (!named.empty()) all.push_back(named);
  return all;
}

std::string DirectoryPaths::jupyter_kernels() const {
  if (kernels_.empty())
    throw Error(ErrorCode::usage, "where kernels belong is not known: " + no_kernels_)
        .hint("set JUPYTER_DATA_DIR to an absolute path");
  return kernels_;
}

}  // namespace thole::wire
