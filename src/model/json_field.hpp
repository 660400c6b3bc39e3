// Reading JSON with paths: a value together with where it was found, so that a mistake can be named
// ("gpus[2].memory_mib: expected a whole number"). Private to model.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "model/json.hpp"
#include "model/metric.hpp"

namespace thole::model {

// A value, or the absence of one. Refers to its parent, so it must not outlive it: parents are local variables.
// The path is put together only when something is wrong: reading 256 CPUs builds no strings.
class Field {
 public:
  // `about`: the file or argument, for errors; must outlive the field, as `name` must.
  explicit Field(const Json& root, std::string_view name = "", std::string_view about = "")
      : json_(&root), name_(name), about_(about) {}

  Field at(const char* key) const&;      // null when absent
  Field at(const char* key) const&& = delete;
  template <class F>
  void each(F&& f) const;                // f(Field) for every element; null is the empty list

  bool null() const { return json_ == nullptr || json_->is_null(); }
  bool absent() const { return json_ == nullptr; }
  bool is_text() const { return !null() && json_->is_string(); }
  bool is_list() const { return !null() && json_->is_array(); }
  std::string path() const;
  [[noreturn]] void fail(const std::string& why) const;

  void must_be_object() const { if (null() || !json_->is_object()) fail("expected an object {…}"); }
  std::uint64_t whole(std::uint64_t most) const;
  double number() const;                 // not negative
  bool flag() const;
  const std::string& text() const;

  // The same where null or absent means "unknown" (or a stated default).
  std::optional<std::uint64_t> maybe_mib() const { return null() ? std::nullopt : std::optional(whole(most_mib)); }
  std::optional<int> maybe_int() const { return null() ? std::nullopt : std::optional(static_cast<int>(whole(most_int))); }
  std::optional<double> maybe_number() const { return null() ? std::nullopt : std::optional(number()); }
  bool flag_or(bool other) const { return null() ? other : flag(); }
  std::string text_or_empty() const { return null() ? std::string() : text(); }

  // One of the names of an enumeration; the error lists what `parse` would have taken.
  template <class T>
  T one_of(std::optional<T> (*parse)(std::string_view), const char* known) const {
    if (auto value = parse(text())) return *value;
    fail("\"" + printable(text(), 60) + "\" is not one of " + known);
  }

  // The member `key` as a metric: a value, or null with its reason in this object's "unsupported" or "errors".
  template <class T, class F>
  Metric<T> metric(const char* key, F&& read) const&;

  static constexpr std::uint64_t most_mib = std::uint64_t{1} << 43;  // 8 EiB, and additions cannot overflow
  static constexpr std::uint64_t most_int = 0x7fffffff;

 private:
  Field(const Json* json, const Field* parent, std::string_view name, std::size_t index)
      : json_(json), parent_(parent), name_(name), index_(index) {}

  const Json* json_;
  const Field* parent_ = nullptr;
  std::string_view name_;                // of a member; empty for an element
  std::size_t index_ = 0;
  std::string_view about_;               // of the root
};

template <class F>
void Field::each(F&& f) const {
  if (null()) return;
  if (!json_->is_array()) fail("expected a list […]");
  for (std::size_t i = 0; i < json_->size(); ++i) f(Field(&(*json_)[i], this, {}, i));
}

template <class T, class F>
Metric<T> Field::metric(const char* key, F&& read) const& {
  Field value = at(key);
  if (!value.null()) return Metric<T>(read(value));
  Metric<T> found;
  Field unsupported = at("unsupported");
  unsupported.each([&](const Field& name) {
    if (name.text() == key) found = Metric<T>::unsupported();
  });
  Field errors = at("errors");
  if (!errors.null()) errors.must_be_object();
  Field error = errors.at(key);
  if (!error.null()) found = Metric<T>::failed(error.text());
  return found;
}

// What a member of an object says about a Target.
template <class Target>
struct Member {
  const char* name;
  void (*set)(Target&, const Field&);
};

// Sets every known field that is not null; whoever misspells one is told.
template <class Target, std::size_t n>
void read_object(Target& target, const Json& json, const Field& object, const Member<Target> (&keys)[n]) {
  object.must_be_object();
  for (const auto& member : json.items()) {
    const auto* key = std::find_if(keys, keys + n, [&](const Member<Target>& k) { return member.key() == k.name; });
    if (key == keys + n) {
      std::vector<std::string> known;
      for (const Member<Target>& k : keys) known.emplace_back(k.name);
      const auto near = nearest(member.key(), known);
      object.fail(fmt::format("no such field \"{}\"; {}", printable(member.key(), 60),
                              near ? "did you mean \"" + *near + "\"?" : "the fields are " + join(known, ", ")));
    }
    const Field field = object.at(key->name);
    if (!field.null()) key->set(target, field);
  }
}

}  // namespace thole::model
