// What every command gets: the command line, the configuration, the machine, and where to write.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "cli/line/invocation.hpp"
#include "cli/show/terminal.hpp"
#include "model/json.hpp"
#include "wire/config.hpp"
#include "wire/wire.hpp"

namespace thole::cli {

struct Context {
  const Invocation& invocation;
  const wire::Config& config;
  wire::Wire& wire;
  Screen screen;  // of stdout

  void print(std::string_view text) const;         // a result, on stdout; throws when it cannot be written
  void draw(const Screen& now, std::string_view text, bool first) const;   // … over the frame before
  void copy(std::string_view bytes) const;         // … as it is: what a job has written, text for another program
  void print_json(const model::Json& json, int indent = 2) const;  // … as one document
  void note(std::string_view text) const;          // on stderr, as a line or an event; not under -q
  void detail(std::string_view text) const;        // only under -v
  void warn(std::string_view text) const;          // always

  // What the line says about binding, else the configuration, else the default of this use.
  model::BindOptions binding(const model::BindOptions& fallback) const;

  plan::Ids ids() const;                             // --ids, else the configuration's
  std::map<std::string, std::string> carry() const;  // variables by which a job's own thole finds the same machine and claims
};

// Whether stderr is a program's to read, one JSON object a line: of commands that tell there what happens (docs/json.md).
bool tells_events(const Invocation& invocation);

// "thole/error/1"
model::Json to_json(const Error& error);

}  // namespace thole::cli
