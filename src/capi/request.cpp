#include "capi/request.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "model/json.hpp"

namespace thole::capi {

namespace {

constexpr std::uint32_t longest_try_ms = 60'000;

// Takes a text field that is not part of the request itself out of the object.
std::string take_text(model::Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return {};
  if (!found->is_string()) throw Error(ErrorCode::usage, fmt::format("request.{}: expected a text", name));
  std::string text = found->get<std::string>();
  json.erase(found);
  return text;
}

bool take_flag(model::Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return false;
  if (!found->is_boolean()) throw Error(ErrorCode::usage, fmt::format("request.{}: expected true or false", name));
  const bool flag = found->get<bool>();
  json.erase(found);
  return flag;
}

std::optional<std::uint32_t> take_number(model::Json& json, const char* name, std::uint32_t most) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > most)
    throw Error(ErrorCode::usage, fmt::format("request.{}: expected a whole number from 0 to {}", name, most));
  const auto number = found->get<std::uint32_t>();
  json.erase(found);
  return number;
}

std::vector<std::string> take_texts(model::Json& json, const char* name) {
  std::vector<std::string> texts;
  const auto found = json.find(name);
  if (found == json.end()) return texts;
  if (!found->is_array() || !std::ranges::all_of(*found, [](const model::Json& one) { return one.is_string(); }))
    throw Error(ErrorCode::usage, fmt::format("request.{}: expected a list of texts", name));
  for (const model::Json& text : *found) texts.push_back(text.get<std::string>());
  json.erase(found);
  return texts;
}

std::string read_command_line() {
  std::string words = read_file("/proc/self/cmdline", 4096).value_or("");
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

// The program's own command line, as ps shows it. Read once: it is a fifth of a claim, and the same until the process execs.
const std::string& own_command_line() {
  static const std::string line = read_command_line();
  return line;
}

}  // namespace

Wish read_wish(const char* text, const wire::Config& config) {
  Wish wish;
  model::Json json = text ? model::parse_json(text, "request") : model::Json::object();
  if (!json.is_object()) throw Error(ErrorCode::usage, "request: expected an object {…}");
  std::string ids = take_text(json, "ids");
  if (ids.empty()) ids = config.ids.empty() ? "auto" : config.ids;
  if (const auto parsed = plan::parse_ids(ids)) wish.ids = *parsed;
  else throw Error(ErrorCode::usage, fmt::format("request.ids: \"{}\" is not one of auto, uuid, index", printable(ids, 60)));
  wish.command = take_text(json, "command");
  if (wish.command.empty()) wish.command = own_command_line();
  wish.not_started = take_flag(json, "not_started");
  wish.own = take_texts(json, "own");
  if (const auto most = take_number(json, "try_ms", longest_try_ms); most.value_or(0) > 0) wish.try_for = Millis{*most};
  if (const auto fd = take_number(json, "tell_fd", std::numeric_limits<int>::max())) wish.tell = static_cast<int>(*fd);
  wish.request = model::request_from_json(json, config.request);
  return wish;
}

}  // namespace thole::capi
