// An SVG 1.1 document piece by piece: boxes, lines, text that is known to fit. Text is made safe for XML here; what strangers
// wrote goes through printable() before.
#pragma once

#include <string>
#include <string_view>

namespace thole::cli {

class Svg {
 public:
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;
    double right() const { return x + width; }
    double bottom() const { return y + height; }
    double middle() const { return y + height / 2; }
  };
  struct Paint {
    std::string_view fill = "none", stroke = "none";
    double stroke_width = 1;
    bool dashed = false;
    double round = 3;
  };
  struct Font {
    double size = 11;
    bool bold = false;
    std::string_view fill = "#1f2328";
    std::string_view anchor = "start";  // or "middle", "end"
    bool upright = false;               // written from top to bottom
  };

  // `what` names the box for whoever reads the file ("gpu", "core"); `tip` is shown when the pointer rests on it.
  void box(const Box& box, const Paint& paint, std::string_view what, std::string_view tip = {});
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, double width);
  // From (x, y1) to (x, y2) through a point `depth` to the right.
  void arc(double x, double y1, double y2, double depth, std::string_view stroke, double width, std::string_view tip);
  // Cut with an ellipsis at `room`, where that is not 0.
  void text(double x, double y, std::string_view text, const Font& font, double room = 0);

  std::string document(double width, double height, std::string_view title, std::string_view about) const;

 private:
  std::string body_;
};

// About how wide the text is, in the widest of the fonts that the document names.
double width_of(std::string_view text, double size, bool bold = false);

}  // namespace thole::cli
