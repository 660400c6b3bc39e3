#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace thole {

namespace {

constexpr std::string_view whitespace = " \t\r\n\f\v";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// One step of UTF-8 decoding: the code point and its length, or length 1 and `valid` false for a byte that begins none.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 1;
  bool valid = false;
};

CodePoint decode(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  char32_t value = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<char32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < smallest[length] || value > 0x10ffff || surrogate) return {};
  return {value, length, true};
}

struct Range { char32_t first, last; };

bool within(char32_t c, std::span<const Range> ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [c](Range r) { return c >= r.first && c <= r.last; });
}

// What changes how other text is shown, or is not seen at all: bidi controls (CVE-2021-42574), zero width characters,
// line and paragraph separators, interlinear marks, tags, and whatever else Unicode calls Default_Ignorable_Code_Point; and the
// letters and spaces that are blank however wide (Hangul fillers, the empty Braille cell, every space but the common one).
constexpr Range deceptive[] = {
    {0x00a0, 0x00a0}, {0x00ad, 0x00ad}, {0x061c, 0x061c},   {0x115f, 0x1160},   {0x1680, 0x1680}, {0x17b4, 0x17b5},
    {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},   {0x205f, 0x206f},   {0x2800, 0x2800}, {0x3000, 0x3000},
    {0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},   {0xfff0, 0xfffb},   {0x13441, 0x13442}, {0x1bca0, 0x1bca3},
    {0x1d159, 0x1d159}, {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xe01f0, 0xe0fff}};

// Also ignorable, but honest names have them behind a sign whose form they select (an emoji's, an ideograph's): not seen where
// there is none before them.
constexpr Range selectors[] = {{0x034f, 0x034f}, {0x180b, 0x180f}, {0xfe00, 0xfe0f}, {0xe0100, 0xe01ef}};

// East Asian Wide and Fullwidth blocks, coarsely: two columns each.
constexpr Range wide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                          {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment: insert, delete, replace, or swap two neighbours, each one step.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string_view trim(std::string_view text) {
  std::size_t first = text.find_first_not_of(whitespace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(whitespace) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  std::size_t start = 0;
  for (std::size_t end; (end = text.find(separator, start)) != std::string_view::npos; start = end + 1)
    pieces.push_back(text.substr(start, end - start));
  pieces.push_back(text.substr(start));
  return pieces;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string last_part(std::string_view text) { return std::string(text.substr(text.rfind('/') + 1)); }

std::string to_lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char a, char b) { return lower(a) == lower(b); });
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end() || part.empty();
}

std::optional<std::uint64_t> parse_u64(std::string_view text, int base) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_double(std::string_view text) {
  // from_chars knows "inf", "nan" and a minus sign; none of them is a number for us.
  if (text.empty() || !((text[0] >= '0' && text[0] <= '9') || text[0] == '.')) return std::nullopt;
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_size_mib(std::string_view text) {
  text = trim(text);
  std::size_t digits = text.find_first_not_of("0123456789.");
  std::string_view number = text.substr(0, digits);
  std::string unit = digits == std::string_view::npos ? "" : to_lower(trim(text.substr(digits)));
  std::optional<double> value = parse_double(number);
  if (!value) return std::nullopt;
  double mib = 1;
  if (!unit.empty()) {
    std::string_view rest = std::string_view(unit).substr(1);
    if (!rest.empty() && rest != "b" && rest != "ib" && rest != "i") return std::nullopt;
    switch (unit[0]) {
      case 'k': mib = 1.0 / 1024; break;
      case 'm': break;
      case 'g': mib = 1024; break;
      case 't': mib = 1024 * 1024; break;
      default: return std::nullopt;
    }
  }
  double total = std::ceil(*value * mib);
  if (total > 1e15) return std::nullopt;  // far beyond any memory, and still exact in a double
  return static_cast<std::uint64_t>(total);
}

std::string format_mib(std::uint64_t mib) {
  if (mib < 1024) return fmt::format("{} MiB", mib);
  double gib = static_cast<double>(mib) / 1024;
  return gib < 9999.95 ? fmt::format("{:.1f} GiB", gib) : fmt::format("{:.1f} TiB", gib / 1024);
}

std::optional<double> parse_percent(std::string_view text) {
  text = trim(text);
  bool sign = !text.empty() && text.back() == '%';
  if (sign) text = trim(text.substr(0, text.size() - 1));
  std::optional<double> value = parse_double(text);
  if (!value) return std::nullopt;
  // A fraction is what GPUtil users write: 0.5, 1.0. A plain "1" is one percent.
  if (!sign && *value <= 1 && text.find('.') != std::string_view::npos) *value *= 100;
  if (*value > 100) return std::nullopt;
  return value;
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() > 128) return std::nullopt;  // no slip of a name, and the distance costs the product of the lengths
  std::string wanted = to_lower(word);
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(wanted, to_lower(candidate));
    if (distance >= best || distance >= std::max(word.size(), candidate.size())) continue;
    best = distance;
    found = candidate;
  }
  return found;
}

std::string printable(std::string_view text, std::size_t max_columns) {
  std::string result;
  std::size_t columns = 0, cut = 0;  // `cut`: where the result ends if an ellipsis has to follow
  bool fits_with_ellipsis = true;
  while (!text.empty()) {
    CodePoint c = decode(text);
    std::string shown;
    std::size_t width = 0;
    if (!c.valid) shown = fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0))
      shown = fmt::format("\\x{:02x}", static_cast<unsigned>(c.value));
    else if (within(c.value, deceptive) || (result.empty() && within(c.value, selectors)))
      shown = fmt::format("\\u{:04x}", static_cast<unsigned>(c.value));
    else {
      shown = std::string(text.substr(0, c.length));
      width = within(c.value, wide) ? 2 : 1;
    }
    if (width == 0) width = shown.size();
    if (columns + width > max_columns) {
      result.resize(cut);
      if (max_columns > 0) result += "…";
      return result;
    }
    result += shown;
    columns += width;
    fits_with_ellipsis = fits_with_ellipsis && columns + 1 <= max_columns;
    if (fits_with_ellipsis) cut = result.size();
    text.remove_prefix(c.length);
  }
  return result;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    CodePoint c = decode(text);
    columns += c.valid && within(c.value, wide) ? 2 : 1;
    text.remove_prefix(c.length);
  }
  return columns;
}

std::string shell_quote(std::string_view word) {
  constexpr std::string_view safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  const bool special = word.starts_with('=') || word.starts_with('~');   // zsh: "=ls" is where ls lies
  if (!word.empty() && !special && word.find_first_not_of(safe) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'') quoted += "'\\''";
    else quoted += c;
  }
  return quoted + "'";
}

}  // namespace thole
