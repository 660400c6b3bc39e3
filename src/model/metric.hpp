// A reading that is a value, known to be unsupported, failed, or was never tried. Never a false zero.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace thole::model {

template <class T>
class Metric {
 public:
  enum class State { unknown, value, unsupported, failed };

  Metric() = default;                                    // unknown: nobody asked
  Metric(T value) : state_(State::value), value_(std::move(value)) {}  // NOLINT: a value is a Metric
  static Metric unsupported() { Metric m; m.state_ = State::unsupported; return m; }
  static Metric failed(std::string why) { Metric m; m.state_ = State::failed; m.why_ = std::move(why); return m; }

  State state() const { return state_; }
  bool known() const { return state_ == State::value; }
  explicit operator bool() const { return known(); }
  const T& operator*() const { return *value_; }
  T value_or(T other) const { return known() ? *value_ : other; }
  const std::string& why() const { return why_; }  // the error, when failed
  bool operator==(const Metric&) const = default;

 private:
  State state_ = State::unknown;
  std::optional<T> value_;
  std::string why_;
};

}  // namespace thole::model
