// A fuzz target is one function that must survive any bytes; check() is what must hold for all of them.
//
// It is built twice: with replay.cpp, which runs the committed corpus and a fixed number of deterministic mutations of it in
// every test run, and (THOLE_BUILD_FUZZ, clang) with libfuzzer.cpp as a libFuzzer program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

int fuzz_one(const std::uint8_t* data, std::size_t size);

namespace thole::fuzz {

inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Takes the input apart: a byte to choose with, or text up to the next newline, or all that is left.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    auto first = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return first;
  }
  std::string line() {
    std::size_t end = rest_.find('\n');
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return text;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace thole::fuzz
