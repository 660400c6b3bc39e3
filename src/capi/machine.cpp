// Opening a machine, looking at it, and what a claim would get.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>

#include "app/show/overview_json.hpp"
#include "app/show/why.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "capi/handles.hpp"
#include "capi/request.hpp"
#include "model/json.hpp"
#include "model/json_null.hpp"
#include "wire/overview.hpp"

namespace thole::capi {

namespace {

// A folder may be called thole too: bundled libraries lie in one beside libthole.so.
bool runnable(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && may_execute(path);
}

wire::Config configured(const char* options) {
  const plan::Environment environment = wire::process_environment(environ);
  const auto path = environment.find("PATH");
  const std::string program = program_beside_library(path == environment.end() ? "" : path->second);
  wire::Config config = wire::read_config(environment, wire::config_files(environment), program);
  if (!options) return config;
  const model::Json json = model::parse_json(options, "options");
  if (!json.is_object()) throw Error(ErrorCode::usage, "options: expected an object {…}");
  for (const auto& [name, value] : json.items()) {
    std::string* setting = nullptr;
    if (name == "machine") setting = &config.settings.machine;
    if (name == "state_dir") setting = &config.settings.state_dir;
    if (!setting)
      throw Error(ErrorCode::usage, fmt::format("options.{}: no such field", printable(name, 60)))
          .hint("the fields are machine, state_dir");
    if (!value.is_string()) throw Error(ErrorCode::usage, fmt::format("options.{}: expected a text", name));
    *setting = value.get<std::string>();
  }
  return config;
}

model::Json planned(app::Site& site, const model::Request& request) {
  const app::Preview seen = app::preview(site, request);
  if (const auto* refuse = std::get_if<model::Refuse>(&seen.decision))
    throw_refusal(refuse->usage, refuse->why);
  if (const auto* wait = std::get_if<model::Wait>(&seen.decision)) {
    model::Json told = {{"outcome", "wait"}};
    told.update(as_told(site, request, *wait));
    return told;
  }
  model::Json uuids = model::Json::array();
  for (std::size_t unit : seen.chosen) uuids.push_back(seen.units[unit].key);
  return {{"outcome", "take"}, {"gpus", std::move(uuids)}, {"explain", seen.explain}};
}

}  // namespace

model::Json as_told(app::Site& site, const model::Request& request, const model::Wait& wait) {
  return {{"why", app::why_waiting(site, request, wait)},
          {"position", wait.position},
          {"promise", model::or_null(wait.promise)}};
}

char* owned_text(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  return static_cast<char*>(std::memcpy(copy, text.c_str(), text.size() + 1));
}

std::string program_beside_library(const std::string& path_variable) {
  std::string folder;
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&thole_version), &here) && here.dli_fname) {
    const std::string_view library = here.dli_fname;
    folder = library.substr(0, library.rfind('/') + 1);
  }
  // lib/libthole.so or lib/<triplet>/libthole.so beside bin/thole; or both in one build folder.
  for (const char* relative : {"thole", "../bin/thole", "../../bin/thole"})
    if (!folder.empty() && runnable(folder + relative)) return folder + relative;
  for (std::string_view directory : split(path_variable, ':'))
    if (std::string path = std::string(directory) + "/thole"; !directory.empty() && runnable(path)) return path;
  return folder + "../bin/thole";  // a library without its program: simulated machines are still found from here
}

Wires::Lease::Lease(Wires& pool) : pool_(pool), full_file_(SIGXFSZ) {
  {
    const std::lock_guard lock(pool.mutex_);
    if (!pool.idle_.empty()) {
      wire_ = std::move(pool.idle_.back());
      pool.idle_.pop_back();
    }
  }
  if (!wire_) wire_ = std::make_unique<wire::Wire>(pool.settings_);
}

Wires::Lease::~Lease() {
  try {
    const std::lock_guard lock(pool_.mutex_);
    pool_.idle_.push_back(std::move(wire_));
  } catch (const std::bad_alloc&) {  // it is dropped instead; the next call makes another
  }
}

}  // namespace thole::capi

const char* thole_version(void) { return thole::version; }

thole_machine* thole_open(const char* options, thole_error** error) {
  return thole::capi::guarded(error, [&] {
    thole::wire::Config config = thole::capi::configured(options);
    thole::wire::Settings settings = config.settings;
    std::unique_ptr<thole_machine> machine(new thole_machine{std::move(config), thole::capi::Wires(std::move(settings))});
    thole::capi::Wires::Lease(machine->wires)->observer();  // an unknown machine is an error here, not later
    return machine.release();
  });
}

void thole_close(thole_machine* machine) { delete machine; }

char* thole_snapshot(thole_machine* machine, thole_error** error) {
  return thole::capi::guarded(error, [&] {
    thole::capi::Wires::Lease wire(thole::capi::given(machine, "machine").wires);
    thole::app::Observer& observer = wire->observer();
    observer.look(wire->settings().status_patience);
    const thole::app::Overview overview = thole::wire::overview_of(*wire, observer);
    return thole::capi::owned_text(thole::model::dump(thole::app::status_to_json(overview)));
  });
}

char* thole_plan(thole_machine* machine, const char* request, thole_error** error) {
  return thole::capi::guarded(error, [&] {
    const thole::capi::Wish wish = thole::capi::read_wish(request, thole::capi::given(machine, "machine").config);
    thole::capi::Wires::Lease wire(machine->wires);
    return thole::capi::owned_text(thole::model::dump(thole::capi::planned(wire->site(), wish.request)));
  });
}
