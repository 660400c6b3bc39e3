// A request from JSON, for the C ABI. A misspelt wish must not be overlooked: unknown fields are mistakes here.
#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/json.hpp"
#include "model/json_field.hpp"

namespace thole::model {

namespace {

constexpr std::uint64_t most_gpus = 1u << 16;

std::vector<std::string> words(const Field& field) {
  std::vector<std::string> all;
  field.each([&](const Field& word) { all.push_back(word.text()); });
  return all;
}

double percent(const Field& field) {
  const double value = field.number();
  if (value > 100) field.fail("expected a percentage, 0 to 100");
  return value;
}

std::optional<ShareWith> parse_share_with(std::string_view text) {
  if (text == "user") return ShareWith::same_user;
  if (text == "any") return ShareWith::any;
  return std::nullopt;
}

struct Key {
  const char* name;
  void (*set)(Request&, const Field&);
};

constexpr Key keys[] = {
    {"gpus", [](Request& r, const Field& f) { r.gpus = static_cast<unsigned>(f.whole(most_gpus)); }},
    {"on", [](Request& r, const Field& f) { r.on = words(f); }},
    {"not", [](Request& r, const Field& f) { r.not_on = words(f); }},
    {"model", [](Request& r, const Field& f) { r.model = f.text(); }},
    {"memory_mib", [](Request& r, const Field& f) { r.memory_mib = f.whole(Field::most_mib); }},
    {"share", [](Request& r, const Field& f) { r.share = f.flag(); }},
    {"share_with", [](Request& r, const Field& f) { r.share_with = f.one_of(parse_share_with, "user, any"); }},
    {"beside", [](Request& r, const Field& f) { r.beside = f.one_of(parse_beside, "none, mine, any"); }},
    {"max_load_percent", [](Request& r, const Field& f) { r.max_load_percent = percent(f); }},
    {"max_memory_percent", [](Request& r, const Field& f) { r.max_memory_percent = percent(f); }},
    {"pick", [](Request& r, const Field& f) { r.pick = f.one_of(parse_pick, "pack, first, last, random, load, memory"); }},
    {"shape", [](Request& r, const Field& f) { r.shape = f.one_of(parse_shape, "collective, pairwise, independent"); }},
    {"order", [](Request& r, const Field& f) { r.order = words(f); }},
    {"trust_claims", [](Request& r, const Field& f) { r.trust_claims = f.flag(); }},
};

[[noreturn]] void unknown(const std::string& name) {
  std::vector<std::string> known;
  for (const Key& key : keys) known.emplace_back(key.name);
  auto near = nearest(name, known);
  throw Error(ErrorCode::usage, fmt::format("request.{}: no such field", printable(name, 60)))
      .hint(near ? "did you mean \"" + *near + "\"?" : "the fields are " + join(known, ", "));
}

}  // namespace

Request request_from_json(const Json& json, Request request) {
  const Field root(json, "request");
  root.must_be_object();
  for (const auto& member : json.items()) {
    const auto* key = std::find_if(std::begin(keys), std::end(keys), [&](const Key& k) { return member.key() == k.name; });
    if (key == std::end(keys)) unknown(member.key());
    const Field field = root.at(key->name);
    if (!field.null()) key->set(request, field);
  }
  if (request.share && !request.memory_mib)
    throw Error(ErrorCode::usage, "request.memory_mib: a sharer must say how much memory it will use");
  return request;
}

}  // namespace thole::model
