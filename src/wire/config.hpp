// Configuration: /etc/thole/config.toml, $XDG_CONFIG_HOME/thole/config.toml and THOLE_* variables, the later wins (flags win
// over all of them, see cli). Read once; docs/configuration.md lists the keys.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "model/bind_wishes.hpp"
#include "wire/settings.hpp"

namespace thole::wire {

struct Config {
  explicit Config(Settings of) : settings(std::move(of)) {}

  Settings settings;
  model::Request request;             // the defaults a request starts from: wait, pick, beside, …
  model::BindWishes binding;          // likewise of how jobs are bound
  std::string ids;                    // "auto", "uuid", "index"
  std::vector<std::string> files;     // those that were found and read
  std::vector<Error> mistakes;        // files and variables left out (OnMistake::leave_out)
  std::vector<std::string> cautions;  // of files that are not heeded, for doctor
  std::vector<std::string> unknown;   // THOLE_… variables that mean nothing: "THOLE_MASHINE"
};

// One thing that can be configured; the table of them is in config.cpp.
struct ConfigKey {
  std::string_view name;      // "request.wait"; "" = by variable only
  std::string_view variable;  // "THOLE_WAIT"; "" = by the site's file only
  std::string_view value;     // "TIME"
  std::string_view help;
  void (*set)(Config&, const std::vector<std::string>& values, const std::string& where);
  bool many = false;  // an array in the file, separated by commas in the variable
};
std::span<const ConfigKey> config_keys();

inline constexpr const char* site_file = "/etc/thole/config.toml";

// The caller's variables, from the process environment.
plan::Environment process_environment(char** environ);

// Reads `files` in order (the first is the site's; a missing one is nothing), then the variables, and the file that PBS_GPUFILE
// names. Unknown keys and malformed values throw Error(usage) with file, line and the nearest key. `program` is the path of
// `thole` itself. There is no other way to come by Settings.
enum class OnMistake { refuse, leave_out };   // the whole file, or the variable: for doctor, who is to say what is wrong
Config read_config(const plan::Environment& environment, const std::vector<std::string>& files, const std::string& program,
                   OnMistake on_mistake = OnMistake::refuse);

// Where the two files are for this caller.
std::vector<std::string> config_files(const plan::Environment& environment);

}  // namespace thole::wire
