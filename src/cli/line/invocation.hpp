// What the command line said, as one value: the verb, the words after it, and everything its options chose.
#pragma once

#include <algorithm>
#include <any>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bind_wishes.hpp"
#include "model/request.hpp"

namespace thole::cli {

struct Verb;

// Options that go with every verb, before or after it. Absent = the configuration decides.
struct Globals {
  std::optional<std::string> machine;  // a simulated machine: a file, a shipped name, or "8xA100"
  std::optional<std::string> state_dir;
  std::optional<std::string> queue_dir;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool no_color = false;
  bool help = false;
  bool version = false;
};

// The options of one verb, in the struct that its file has for them: made when the first of them is given, and before that as
// if none were.
class OwnOptions {
 public:
  template <class Options>
  Options& as() {
    if (!value_.has_value()) value_.emplace<Options>();
    return std::any_cast<Options&>(value_);
  }

  template <class Options>
  const Options& as() const {
    static const Options none{};
    return value_.has_value() ? std::any_cast<const Options&>(value_) : none;
  }

 private:
  std::any value_;
};

struct Invocation {
  const Verb* verb = nullptr;
  Globals global;
  model::Request request;  // starts as the configuration's defaults
  model::BindWishes binding;
  bool dry_run = false;
  std::string ids;  // "auto", "uuid" or "index"; "" = the configuration decides
  OwnOptions own;
  std::vector<std::string> typed;  // everything after the verb, for `submit`, which puts a script's own options before it
  std::vector<std::string_view> options;  // the names of those given, as the table has them
  std::vector<std::string> remarks;  // sentences on what was understood, for stderr
  std::vector<std::string> words;  // GPUs, claims, jobs, or the command to run with its arguments

  bool given(std::string_view option) const { return std::ranges::find(options, option) != options.end(); }
};

}  // namespace thole::cli
