#include "model/json.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/json_field.hpp"

namespace thole::model {

namespace {

// Deeper than anything that thole reads. Whatever walks through a value (copies it, writes it) takes stack for each level.
constexpr int deepest = 200;

bool is_too_deep(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      while (++at < text.size() && text[at] != '"')
        if (text[at] == '\\') ++at;
    } else if (c == '/') {  // a comment
      const bool block = text.substr(at).starts_with("/*");
      at = block ? text.find("*/", at + 2) : text.find('\n', at);
      if (at == std::string_view::npos) return false;
      if (block) ++at;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json(const std::string& text, const std::string& what) {
  if (is_too_deep(text))
    throw Error(ErrorCode::usage, fmt::format("not usable as JSON: more than {} lists and objects within each other", deepest))
        .about(what);
  try {
    return Json::parse(text, nullptr, /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const Json::parse_error& error) {
    std::size_t at = error.byte > 0 ? std::min(error.byte - 1, text.size()) : 0;
    std::string_view before(text.data(), at);
    std::size_t line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …": keep the last part.
    std::string_view why = error.what();
    if (std::size_t colon = why.find(": "); colon != std::string_view::npos) why.remove_prefix(colon + 2);
    throw Error(ErrorCode::usage,
                fmt::format("not JSON at line {}, column {}: {}", line, at - line_start + 1, printable(why, 300)))
        .about(what);
  } catch (const Json::exception& error) {  // a number too large for any type
    throw Error(ErrorCode::usage, "not usable as JSON: " + printable(error.what(), 300)).about(what);
  }
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Field Field::at(const char* key) const& {
  if (json_ == nullptr || !json_->is_object()) return Field(nullptr, this, key, 0);
  auto found = json_->find(key);
  return Field(found == json_->end() ? nullptr : &*found, this, key, 0);
}

std::string Field::path() const {
  if (parent_ == nullptr) return std::string(name_);
  std::string before = parent_->path();
  if (name_.empty()) return before + fmt::format("[{}]", index_);
  return before.empty() ? std::string(name_) : before + "." + std::string(name_);
}

void Field::fail(const std::string& why) const {
  const Field* root = this;
  while (root->parent_ != nullptr) root = root->parent_;
  std::string where = path();
  throw Error(ErrorCode::usage, where.empty() ? why : where + ": " + why).about(std::string(root->about_));
}

std::uint64_t Field::whole(std::uint64_t most) const {
  // Parsed numbers without a sign are unsigned; those that to_json put there may be signed and still not negative.
  bool fits = !null() && json_->is_number_integer() && (json_->is_number_unsigned() || json_->get<std::int64_t>() >= 0);
  if (!fits) fail("expected a whole number, 0 or more; null when it is unknown");
  auto value = json_->get<std::uint64_t>();
  if (value > most) fail(fmt::format("{} is too large, at most {}", value, most));
  return value;
}

double Field::number() const {
  if (null() || !json_->is_number()) fail("expected a number; null when it is unknown");
  auto value = json_->get<double>();
  if (!(value >= 0)) fail("must not be negative; null when it is unknown");
  return value;
}

bool Field::flag() const {
  if (null() || !json_->is_boolean()) fail("expected true or false");
  return json_->get<bool>();
}

const std::string& Field::text() const {
  if (null() || !json_->is_string()) fail("expected a string");
  return json_->get_ref<const std::string&>();
}

}  // namespace thole::model
