#include "cli/context.hpp"

#include <unistd.h>

#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "cli/line/table.hpp"
#include "cli/output.hpp"
#include "model/json_null.hpp"
#include "wire/carry.hpp"

namespace thole::cli {

namespace {

void say(const Invocation& invocation, const char* event, std::string_view text) {
  if (!tells_events(invocation)) {
    tell(text);
    return;
  }
  const model::Json line = {{"schema", "thole/progress/1"}, {"event", event}, {"message", text}};
  put_bytes(STDERR_FILENO, model::dump(line, -1) + "\n");
}

// Whether the locale that is set has another encoding than UTF-8. None set: what terminals have today.
bool speaks_ascii_only(const plan::Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto variable = environment.find(name);
    if (variable == environment.end() || variable->second.empty()) continue;
    const std::string value = to_lower(variable->second);
    return value.find("utf-8") == std::string::npos && value.find("utf8") == std::string::npos;
  }
  return false;
}

}  // namespace

void Context::print(std::string_view text) const {
  const bool ascii = speaks_ascii_only(wire.settings().environment);
  give_text(ascii ? in_ascii(std::string(text)) : text, screen.colors);
}

void Context::draw(const Screen& now, std::string_view text, bool first) const {
  const bool ascii = speaks_ascii_only(wire.settings().environment);
  give_frame(ascii ? in_ascii(std::string(text)) : text, now.colors, now.rows, first);
}

void Context::copy(std::string_view bytes) const { give_bytes(bytes); }

void Context::print_json(const model::Json& json, int indent) const { copy(model::dump(json, indent) + "\n"); }

void Context::note(std::string_view text) const {
  if (!invocation.global.quiet) say(invocation, "note", text);
}

void Context::detail(std::string_view text) const {
  if (invocation.global.verbose) say(invocation, "note", text);
}

void Context::warn(std::string_view text) const { say(invocation, "caution", text); }

plan::Ids Context::ids() const {
  const std::string& form = invocation.ids.empty() ? config.ids : invocation.ids;
  return plan::parse_ids(form).value_or(plan::Ids::automatic);  // checked where it was read
}

model::BindOptions Context::binding(const model::BindOptions& fallback) const {
  return invocation.binding.over(config.binding.over(fallback));
}

std::map<std::string, std::string> Context::carry() const { return wire::carried(wire.settings()); }

bool tells_events(const Invocation& invocation) {
  const Verb* verb = invocation.verb;
  return invocation.global.json && verb && verb->tells_events && verb->tells_events(invocation);
}

model::Json to_json(const Error& error) {
  return {{"schema", "thole/error/1"},
          {"error",
           {{"code", name(error.code())},
            {"reason", reason(error)},
            {"message", error.what()},
            {"object", model::or_null(error.object())},
            {"errno", error.sys_errno() != 0 ? model::Json(error.sys_errno()) : model::Json(nullptr)},
            {"hint", model::or_null(hint_of(error))},
            {"exit_status", exit_status(error.code())}}}};
}

}  // namespace thole::cli
