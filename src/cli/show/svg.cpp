#include "cli/show/svg.hpp"

#include <algorithm>

#include "base/printable_lines.hpp"
#include "base/text.hpp"

namespace thole::cli {

namespace {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable_lines(text)) switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += c;
    }
  return safe;
}

// For a reader whose screen is dark: each colour of a drawing, and what stands for it there.
constexpr std::pair<std::string_view, std::string_view> dark_twins[] = {
    {"#ffffff", "#0d1117"}, {"#f6f8fa", "#161b22"}, {"#eef1f4", "#1a2029"}, {"#fffdf5", "#22201a"},  // grounds
    {"#1f2328", "#e6edf3"}, {"#59636e", "#9da7b1"},                                                  // text
    {"#8c959f", "#656c76"}, {"#afb8c1", "#3d444d"}, {"#d0d7de", "#3d444d"}, {"#7d8b99", "#768390"},  // lines, cores
    {"#cce1fe", "#173257"}, {"#1d4ed8", "#7fb2ff"}, {"#e3f5e6", "#12301e"}, {"#217346", "#5fce8d"},  // yours, free
    {"#e6eef8", "#1a2b40"}, {"#2f5f93", "#84b8ec"}, {"#eee7f8", "#2b223f"}, {"#6b46a0", "#bd9cee"},  // claimed, shared
    {"#fdf0cf", "#382d0f"}, {"#8a5a0b", "#e3b341"}, {"#fde2cc", "#3d250f"}, {"#a8440f", "#f59d66"},  // overdue, no claim
    {"#fbd5d5", "#42181a"}, {"#b42323", "#ff8a82"}, {"#ececec", "#2a2f36"}, {"#5a616c", "#a3adb8"},  // sick, unknown
    {"#bf9b30", "#bf9b30"}, {"#e0f2f1", "#0f2e2c"}, {"#0f766e", "#43bfb2"},                          // NICs, NVLink
    {"#7c3aed", "#a78bfa"}, {"#b45309", "#e09a4a"},                                                  // C2C, xGMI
};

std::string dark_style() {
  std::string style = "@media (prefers-color-scheme:dark){";
  for (const auto& [light, dark] : dark_twins)
    style += fmt::format("[fill=\"{0}\"]{{fill:{1}}}[stroke=\"{0}\"]{{stroke:{1}}}", light, dark);
  return style + "}";
}

// Whole tenths: files stay small and the same everywhere.
std::string number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

// Advance in thousandths of the size, after DejaVu Sans, the widest of the fonts; others need less.
double advance(char c) {
  constexpr std::string_view narrow = "iljI.,:;'|! ", slim = "ftr()-/[]\"", broad = "mwMW%@";
  if (narrow.find(c) != std::string_view::npos) return 320;
  if (slim.find(c) != std::string_view::npos) return 410;
  if (broad.find(c) != std::string_view::npos) return 980;
  return c >= 'A' && c <= 'Z' ? 720 : 630;
}

std::string tipped(std::string_view element, const std::string& attributes, std::string_view tip) {
  if (tip.empty()) return fmt::format("<{} {}/>\n", element, attributes);
  return fmt::format("<{} {}><title>{}</title></{}>\n", element, attributes, escaped(tip), element);
}

}  // namespace

double width_of(std::string_view text, double size, bool bold) {
  double width = 0;
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) width += static_cast<unsigned char>(c) < 0x80 ? advance(c) : 1000;
  return width * size / 1000 * (bold ? 1.12 : 1);
}

void Svg::box(const Box& box, const Paint& paint, std::string_view what, std::string_view tip) {
  std::string attributes =
      fmt::format(R"(class="{}" x="{}" y="{}" width="{}" height="{}" rx="{}" fill="{}" stroke="{}" stroke-width="{}")", what,
                  number(box.x), number(box.y), number(box.width), number(box.height), number(paint.round), paint.fill,
                  paint.stroke, number(paint.stroke_width));
  if (paint.dashed) attributes += R"( stroke-dasharray="4 3")";
  body_ += tipped("rect", attributes, tip);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke, double width) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/>\n", number(x1),
                       number(y1), number(x2), number(y2), stroke, number(width));
}

void Svg::arc(double x, double y1, double y2, double depth, std::string_view stroke, double width, std::string_view tip) {
  const double control = x + depth * 4 / 3;  // a cubic curve reaches three quarters of the way to its control points
  body_ += tipped("path",
                  fmt::format(R"(class="link" d="M{} {}C{} {} {} {} {} {}" fill="none" stroke="{}" stroke-width="{}")",
                              number(x), number(y1), number(control), number(y1), number(control), number(y2), number(x),
                              number(y2), stroke, number(width)),
                  tip);
}

void Svg::text(double x, double y, std::string_view text, const Font& font, double room) {
  if (text.empty()) return;
  std::string shown = printable(text);
  if (room > 0 && width_of(shown, font.size, font.bold) > room)
    for (std::size_t columns = columns_of(shown); columns > 1; --columns) {
      shown = printable(text, columns - 1);
      if (width_of(shown, font.size, font.bold) <= room) break;
    }
  std::string attributes =
      fmt::format(R"(x="{}" y="{}" font-size="{}" fill="{}")", number(x), number(y), number(font.size), font.fill);
  if (font.bold) attributes += R"( font-weight="bold")";
  if (font.anchor != "start") attributes += fmt::format(R"( text-anchor="{}")", font.anchor);
  if (font.upright) attributes += fmt::format(" transform=\"rotate(90 {} {})\"", number(x), number(y));
  body_ += fmt::format("<text {}>{}</text>\n", attributes, escaped(shown));
}

std::string Svg::document(double width, double height, std::string_view title, std::string_view about) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n"
      "<title>{2}</title>\n<desc>{5}</desc>\n<style>{4}</style>\n<rect class=\"page\" width=\"{0}\" height=\"{1}\" "
      "fill=\"#ffffff\"/>\n{3}</svg>\n",
      number(width), number(height), escaped(title), body_, dark_style(), escaped(about));
}

}  // namespace thole::cli
