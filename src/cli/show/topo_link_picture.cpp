#include "cli/show/topo_link_picture.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace thole::cli {

namespace {

using model::LinkKind;
using Box = Svg::Box;

constexpr std::string_view color_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::xgmi: return "#b45309";
    case LinkKind::c2c: return "#7c3aed";
    default: return "#0f766e";
  }
}

std::string_view name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::xgmi: return "xGMI";
    case LinkKind::c2c: return "C2C";
    default: return "NVLink";
  }
}

double stroke_of(int links) { return std::min(1.4 * std::pow(std::max(links, 1), 0.65), 10.0); }

std::string link_words(LinkKind kind, int links) {
  return links == 0 ? std::string(name_of(kind)) : fmt::format("{} × {}", name_of(kind), links);
}

class Wires {
 public:
  Wires(Svg& svg, const std::map<std::size_t, Box>& spots, const app::Joins& joins, double x, bool fabric)
      : svg_(svg), spots_(spots), joins_(joins), x_(x), fabric_(fabric), right_(x) {}

  LinkPicture draw() {
    draw_fabrics();
    draw_arcs();
    LinkPicture picture{right_, {}};
    for (const auto& [kind, links] : samples_)
      picture.samples.push_back({link_words(kind, links), color_of(kind), stroke_of(links)});
    return picture;
  }

 private:
  struct Arc {
    std::size_t a, b;
    LinkKind kind;
    int links;  // 0: not told
  };

  bool drawn_as_fabric(const app::Join& join) const {
    return fabric_ && (join.fast == LinkKind::nvlink || join.fast == LinkKind::nvswitch);
  }

  // NVSwitches: one box beside all GPUs that reach each other through them.
  void draw_fabrics() {
    std::vector<std::size_t> left;
    for (const auto& [gpu, box] : spots_) left.push_back(gpu);
    while (fabric_ && !left.empty()) {
      std::vector<std::size_t> members{left.front()}, others;
      int links = 0;
      for (const std::size_t gpu : left) {
        if (gpu == members.front()) continue;
        const app::Join& join = joins_.between(members.front(), gpu);
        (drawn_as_fabric(join) ? members : others).push_back(gpu);
        if (drawn_as_fabric(join)) links = std::max(links, join.count.value_or(1));
      }
      left = others;
      if (members.size() > 1) draw_fabric(members, links);
    }
  }

  void draw_fabric(const std::vector<std::size_t>& members, int links) {
    constexpr double width = 30, distance = 64;
    constexpr std::string_view color = color_of(LinkKind::nvlink);
    const double x = std::max(x_ + distance, right_ + 10);  // beyond one that is there already
    double top = spots_.at(members.front()).y, bottom = top;
    for (const std::size_t gpu : members) {
      const Box& spot = spots_.at(gpu);
      top = std::min(top, spot.y);
      bottom = std::max(bottom, spot.bottom());
      svg_.line(x_, spot.middle(), x, spot.middle(), color, stroke_of(links));
    }
    const Box box{x, top, width, bottom - top};
    svg_.box(box, {.fill = "#e0f2f1", .stroke = color, .stroke_width = 1.4, .round = 4}, "fabric");
    svg_.text(box.x + 11, box.middle(), fmt::format("NVSwitch · {} links a GPU", links),
              {.size = 11, .bold = true, .fill = color, .anchor = "middle", .upright = true}, box.height - 8);
    right_ = box.right();
    samples_.emplace(LinkKind::nvlink, links);
  }

  std::vector<Arc> arcs() const {
    std::vector<Arc> arcs;
    for (const auto& [a, upper] : spots_)
      for (const auto& [b, lower] : spots_) {
        const app::Join& join = joins_.between(a, b);
        if (a < b && join.fast && !drawn_as_fabric(join)) arcs.push_back({a, b, *join.fast, join.count.value_or(0)});
      }
    std::stable_sort(arcs.begin(), arcs.end(), [](const Arc& x, const Arc& y) { return x.links < y.links; });
    return arcs;
  }

  void draw_arcs() {
    const std::vector<Arc> all = arcs();
    for (const Arc& arc : all) {
      const double y1 = port(arc.a, arc.b, all), y2 = port(arc.b, arc.a, all),
                   depth = std::min(16 + 0.26 * std::abs(y2 - y1), 260.0);
      svg_.arc(x_, y1, y2, depth, color_of(arc.kind), stroke_of(arc.links),
               fmt::format("GPU {} - GPU {}: {}", arc.a, arc.b, link_words(arc.kind, arc.links)));
      right_ = std::max(right_, x_ + depth + 6);
      samples_.emplace(arc.kind, arc.links);
    }
  }

  // Where the arc from one GPU to another leaves it: those that go up above those that go down, the far ones between the near
  // ones, so that none cross here.
  double port(std::size_t from, std::size_t to, const std::vector<Arc>& all) const {
    const Box& spot = spots_.at(from);
    const auto rank = [&](std::size_t other) {
      const double up = spot.y - spots_.at(other).y;
      return up > 0 ? up : 1e6 + up;
    };
    std::size_t ends = 0, before = 0;
    for (const Arc& arc : all) {
      if (arc.a != from && arc.b != from) continue;
      ++ends;
      if (rank(arc.a == from ? arc.b : arc.a) < rank(to)) ++before;
    }
    return spot.y + spot.height * static_cast<double>(before + 1) / static_cast<double>(ends + 1);
  }

  Svg& svg_;
  const std::map<std::size_t, Box>& spots_;
  const app::Joins& joins_;
  const double x_;
  const bool fabric_;
  double right_;
  std::set<std::pair<LinkKind, int>> samples_;
};

}  // namespace

LinkPicture draw_links(Svg& svg, const std::map<std::size_t, Box>& spots, const app::Joins& joins, double x, bool fabric) {
  return Wires(svg, spots, joins, x, fabric).draw();
}

}  // namespace thole::cli
