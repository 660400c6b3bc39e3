// The machine as a picture.
//
// How this works: everything stands in columns, so that a picture is as wide for sixteen GPUs as for two and only gets longer.
// From the left: packages with their NUMA nodes and cores; PCIe switches; GPUs and NICs, each beside the node it is near
// to; at the right the fast links. Each place is a row as high as its node or its devices need. Links come last, when all GPUs
// have their spots.
#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "cli/show/render.hpp"
#include "cli/show/svg.hpp"
#include "cli/show/topo.hpp"
#include "cli/show/topo_link_picture.hpp"

namespace thole::cli {

namespace {

using app::Cluster;
using app::Place;
using app::State;
using app::UnitOverview;
using model::LinkKind;
using Box = Svg::Box;

// The columns, and what stands in them.
constexpr double margin = 20, package_x = margin, package_width = 290, node_x = package_x + 12, node_width = package_width - 24;
constexpr double switch_x = 344, switch_width = 40, device_x = 408, gpu_width = 240, nic_width = 170,
                 links_x = device_x + gpu_width;
constexpr double gpu_height = 38, part_height = 18, nic_height = 19, gap = 6, cluster_gap = 12, place_gap = 10,
                 heading_height = 20;
constexpr double line_height = 14, core_pitches[] = {18, 14, 11};
constexpr std::string_view ink_color = "#1f2328", faint_color = "#59636e", wire_color = "#8c959f";

struct Look {
  std::string_view fill, edge, says;
};

Look look_of(const UnitOverview& unit) {
  if (unit.mine && unit.state != State::sick) return {"#cce1fe", "#1d4ed8", "yours"};
  switch (unit.state) {
    case State::idle: return {"#e3f5e6", "#217346", "free"};
    case State::claimed: return {"#e6eef8", "#2f5f93", "claimed"};
    case State::shared: return {"#eee7f8", "#6b46a0", "shared"};
    case State::overdue: return {"#fdf0cf", "#8a5a0b", "overdue"};
    case State::foreign: return {"#fde2cc", "#a8440f", "used without a claim"};
    case State::sick: return {"#fbd5d5", "#b42323", "sick"};
    case State::unknown: break;
  }
  return {"#ececec", "#5a616c", "unknown"};
}

// Lines that fit the room, broken at blanks.
std::vector<std::string> lines_of(std::string_view text, double size, double room) {
  std::vector<std::string> lines;
  for (std::string_view word : split(text, ' ')) {
    const std::string longer = lines.empty() ? std::string(word) : lines.back() + " " + std::string(word);
    if (lines.empty() || width_of(longer, size) > room) lines.emplace_back(word);
    else lines.back() = longer;
  }
  return lines;
}

class Picture {
 public:
  explicit Picture(const app::Overview& overview)
      : overview_(overview), machine_(overview.snapshot.machine), joins_(machine_), chart_(app::arrange(machine_, joins_)) {
    for (std::size_t g = 0; g < machine_.gpus.size(); ++g) {
      std::size_t body = g;
      for (std::size_t other = 0; other < g && body == g; ++other)
        if (joins_.between(g, other).same) body = body_of_[other];
      body_of_.push_back(body);
    }
    choose_core_size();
  }

  std::string document() {
    svg_.text(margin, 32, title_of(overview_), {.size = 18, .bold = true});
    svg_.text(margin, 50, summary_of(machine_), {.size = 11, .fill = faint_color});
    y_ = 66;
    for (const app::Package& package : chart_.packages) draw(package);
    for (const Place& place : chart_.apart) {
      draw(place, chart_.packages.empty() ? "#f6f8fa" : "#ffffff", true);
      y_ += place_gap;
    }
    const LinkPicture links = draw_links(svg_, spots_, joins_, links_x, through_switch(joins_, machine_.gpus.size()));
    draw_legend(links);
    return svg_.document(std::max(links.right + margin, 720.0), y_ + margin, title_of(overview_), summary_of(machine_));
  }

 private:
  // --- packages and nodes -----------------------------------------------------------------------------------------------
  void draw(const app::Package& package) {
    const double top = y_;
    double height = heading_height + 6;
    for (const Place& place : package.places) height += height_of(place) + place_gap;
    svg_.box({package_x, top, package_width, height}, {.fill = "#eef1f4", .stroke = "#afb8c1", .round = 6}, "package");
    svg_.text(package_x + 12, top + 18, package.number ? fmt::format("Package {}", *package.number) : "CPUs",
              {.size = 13, .bold = true});
    y_ = top + heading_height + 6;
    for (const Place& place : package.places) {
      draw(place, "#ffffff", false);
      y_ += place_gap;
    }
    y_ = top + height + 14;
  }

  double height_of(const Place& place) const { return std::max(node_height(place), devices_height(place)); }

  std::vector<std::string> core_lines(const Place& place) const {
    return place.groups.empty() ? std::vector<std::string>{} : lines_of(cores_of(place), 10, node_width - 20);
  }

  double node_height(const Place& place) const {
    const double text = heading_height + line_height * static_cast<double>(std::min<std::size_t>(core_lines(place).size(), 3));
    return text + cores(place, 0, nullptr) + 10;
  }

  // One size for all cores: the largest that makes no node higher than its devices are, or than cores of 14 would.
  void choose_core_size() {
    std::vector<const Place*> places;
    for (const app::Package& package : chart_.packages)
      for (const Place& place : package.places) places.push_back(&place);
    std::size_t most = 0;
    for (const Place* place : places) most = std::max(most, place->cores().size());
    const double modest = most > 48 ? 11 : 14;
    for (const double pitch : core_pitches) {
      const bool fits = std::all_of(places.begin(), places.end(), [&](const Place* place) {
        core_pitch_ = modest;
        const double height = height_of(*place);
        core_pitch_ = pitch;
        return node_height(*place) <= height;
      });
      if (fits) break;
    }
  }

  void draw(const Place& place, std::string_view fill, bool dashed) {
    const double height = height_of(place);
    svg_.box({node_x, y_, node_width, height}, {.fill = fill, .stroke = "#8c959f", .dashed = dashed, .round = 4}, "node");
    svg_.text(node_x + 10, y_ + 16, heading_of(place, chart_, machine_), {.size = 12, .bold = true}, node_width - 20);
    double at = y_ + heading_height;
    std::vector<std::string> lines = core_lines(place);
    for (std::size_t i = 0; i < std::min<std::size_t>(lines.size(), 3); ++i, at += line_height)
      svg_.text(node_x + 10, at + 10, i == 2 && lines.size() > 3 ? lines[i] + " …" : lines[i],
                {.size = 10, .fill = faint_color}, node_width - 20);
    cores(place, at + 4, &svg_);
    draw_devices(place, y_, height);
    y_ += height;
  }

  // Draws the cores, each a square, those with one level-3 cache together; returns the height they take.
  double cores(const Place& place, double top, Svg* into) const {
    if (place.groups.empty()) return 0;
    const auto& allowed = machine_.outer.allowed_cpus;
    const bool grouped = place.groups.size() > 1;
    const double room = node_width - 20, frame = grouped ? 3 : 0, pitch = core_pitch_, side = pitch - 2;
    const auto in_a_row = static_cast<std::size_t>((room + 2 - 2 * frame) / pitch);
    double x = 0, y = 0, row = 0;
    for (const app::CoreGroup& group : place.groups) {
      const std::size_t number = group.cores.size();
      const std::size_t square = number == 4 ? 2 : number <= 16 ? 4 : in_a_row;
      const std::size_t across = std::min({number, in_a_row, grouped ? square : number});
      const double width = static_cast<double>(across) * pitch - 2 + 2 * frame;
      const double height = static_cast<double>((number + across - 1) / across) * pitch - 2 + 2 * frame;
      if (x > 0 && x + width > room) {
        x = 0;
        y += row + 4;
        row = 0;
      }
      if (into && grouped)
        into->box({node_x + 10 + x, top + y, width, height}, {.fill = "#f6f8fa", .stroke = "#d0d7de", .round = 2}, "l3");
      for (std::size_t c = 0; into && c < number; ++c) {
        const bool usable = !allowed || !(group.cores[c] & *allowed).empty();
        into->box({node_x + 10 + x + frame + pitch * static_cast<double>(c % across),
                   top + y + frame + pitch * static_cast<double>(c / across), side, side},
                  {.fill = usable ? "#7d8b99" : "#ffffff", .stroke = "#7d8b99", .round = 1}, "core",
                  "CPU " + group.cores[c].to_string() + (usable ? "" : ", not yours to use"));
      }
      x += width + 4;
      row = std::max(row, height);
    }
    return y + row + 4;
  }

  // --- devices ----------------------------------------------------------------------------------------------------------
  std::vector<std::size_t> parts_of(std::size_t body) const {
    std::vector<std::size_t> parts;
    for (std::size_t g = body; g < body_of_.size(); ++g)
      if (body_of_[g] == body) parts.push_back(g);
    return parts;
  }

  std::vector<std::size_t> bodies_of(const Cluster& cluster) const {
    std::vector<std::size_t> bodies;
    for (const std::size_t gpu : cluster.gpus)
      if (std::find(bodies.begin(), bodies.end(), body_of_[gpu]) == bodies.end()) bodies.push_back(body_of_[gpu]);
    return bodies;
  }

  std::vector<const UnitOverview*> units_of(std::size_t body) const {
    std::vector<const UnitOverview*> units;
    for (const UnitOverview& unit : overview_.units)
      if (body_of_[unit.unit.gpu] == body) units.push_back(&unit);
    return units;
  }

  // More than one thing to claim, or a GPU that could be cut: a strip for each.
  bool in_parts(std::size_t body) const {
    return parts_of(body).size() > 1 || machine_.gpus[body].mig_mode || !machine_.gpus[body].mig.empty();
  }

  double gpu_box_height(std::size_t body) const {
    return in_parts(body) ? 24 + part_height * static_cast<double>(units_of(body).size()) + (units_of(body).empty() ? 0 : 4)
                          : gpu_height;
  }

  double cluster_height(const Cluster& cluster) const {
    double height = -gap;
    for (const std::size_t body : bodies_of(cluster)) height += gpu_box_height(body) + gap;
    return height + (nic_height + gap) * static_cast<double>(cluster.nics.size());
  }

  double devices_height(const Place& place) const {
    double height = -cluster_gap;
    for (const Cluster& cluster : place.clusters) height += cluster_height(cluster) + cluster_gap;
    return std::max(height, 0.0);
  }

  void draw_devices(const Place& place, double top, double height) {
    double y = top + (height - devices_height(place)) / 2;
    for (const Cluster& cluster : place.clusters) {
      const double tall = cluster_height(cluster);
      const bool shared = cluster.kind && bodies_of(cluster).size() + cluster.nics.size() > 1;
      double from = node_x + node_width;
      if (shared) {
        svg_.line(from, y + tall / 2, switch_x, y + tall / 2, wire_color, 2);
        svg_.box({switch_x, y, switch_width, tall}, {.fill = "#f6f8fa", .stroke = wire_color}, "switch");
        svg_.text(switch_x + switch_width / 2, y + tall / 2 + 4, *cluster.kind == LinkKind::pix ? "PIX" : "PXB",
                  {.size = 10, .fill = faint_color, .anchor = "middle"});
        pcie_.push_back(*cluster.kind);
        from = switch_x + switch_width;
      }
      const auto connect = [&](double tallness) {
        svg_.line(from, y + tallness / 2, device_x, y + tallness / 2, wire_color, 1.5);
        y += tallness + gap;
      };
      for (const std::size_t body : bodies_of(cluster)) {
        draw_gpu(body, y);
        connect(gpu_box_height(body));
      }
      for (const std::size_t nic : cluster.nics) {
        draw_nic(machine_.nics[nic], y);
        connect(nic_height);
      }
      y += cluster_gap - gap;
    }
  }

  void draw_nic(const model::Nic& nic, double y) {
    svg_.box({device_x, y, nic_width, nic_height}, {.fill = "#fffdf5", .stroke = "#bf9b30"}, "nic");
    svg_.text(device_x + 8, y + 13, nic.name, {.size = 10}, nic_width - 80);
    svg_.text(device_x + nic_width - 8, y + 13, rate_of(nic), {.size = 10, .fill = faint_color, .anchor = "end"});
  }

  void draw_gpu(std::size_t body, double y) {
    const model::Gpu& gpu = machine_.gpus[body];
    const std::vector<std::size_t> parts = parts_of(body);
    const std::vector<const UnitOverview*> units = units_of(body);
    const Box box{device_x, y, gpu_width, gpu_box_height(body)};
    spots_[body] = box;
    Svg::Paint paint{.fill = "#ffffff", .stroke = "#8c959f", .stroke_width = 1.4, .round = 4};
    if (!in_parts(body) && !units.empty()) paint = paint_of(*units.front());
    svg_.box(box, paint, "gpu", gpu.uuid.empty() ? "" : printable(gpu.uuid, 60));
    const std::string label =
        parts.size() == 1 ? fmt::format("GPU {}", body) : fmt::format("GPU {}-{}", parts.front(), parts.back());
    svg_.text(box.x + 8, y + 16, label, {.size = 12, .bold = true});
    const double name_x = box.x + 8 + width_of(label, 12, true) + 8;
    const std::string memory = gpu.memory_mib && parts.size() == 1 ? size_of(*gpu.memory_mib) : "";
    const double room = box.right() - name_x - 16 - width_of(memory, 11);
    svg_.text(name_x, y + 16, gpu_name(gpu, width_of(gpu_name(gpu), 11) > room), {.size = 11}, room);
    svg_.text(box.right() - 8, y + 16, memory, {.size = 11, .fill = faint_color, .anchor = "end"});
    if (in_parts(body)) return draw_parts(units, box);
    if (!units.empty())
      svg_.text(box.x + 8, y + 31, holders_of(*units.front()), {.size = 11, .bold = true, .fill = look_of(*units.front()).edge},
                gpu_width - 16);
  }

  void draw_parts(const std::vector<const UnitOverview*>& units, const Box& box) {
    double y = box.y + 22;
    for (const UnitOverview* unit : units) {
      svg_.box({box.x + 6, y, box.width - 12, part_height - 2}, paint_of(*unit), "part");
      const std::string name = unit->unit.instance ? unit->unit.gpu_of(machine_).mig[*unit->unit.instance].profile : "";
      const double middle = box.x + 110;
      svg_.text(box.x + 12, y + 12, unit->unit.label + (name.empty() ? "" : "  " + printable(name, 20)), {.size = 10},
                middle - box.x - 16);
      svg_.text(middle, y + 12, holders_of(*unit), {.size = 10, .bold = true, .fill = look_of(*unit).edge},
                box.right() - middle - 12);
      y += part_height;
    }
  }

  Svg::Paint paint_of(const UnitOverview& unit) {
    const Look look = look_of(unit);
    shown_.try_emplace(look.says, look);
    if (!unit.visible) hidden_ = true;
    return {.fill = look.fill, .stroke = look.edge, .stroke_width = unit.mine ? 2.2 : 1.4, .dashed = !unit.visible, .round = 4};
  }

  // --- legend -----------------------------------------------------------------------------------------------------------
  void draw_legend(const LinkPicture& links) {
    double x = margin;
    y_ += 6;
    const double right = std::max(links.right, 700.0);
    const auto item = [&](std::string_view says, auto draw) {
      const double needed = 30 + width_of(says, 10) + 18;
      if (x > margin && x + needed > right) {
        x = margin;
        y_ += 20;
      }
      draw();
      svg_.text(x + 30, y_ + 10, says, {.size = 10});
      x += needed;
    };
    const auto swatch = [&](const Look& look, bool dashed) {
      item(look.says, [&] {
        svg_.box({x, y_, 22, 13}, {.fill = look.fill, .stroke = look.edge, .stroke_width = 1.4, .dashed = dashed}, "sample");
      });
    };
    for (const auto& [says, look] : shown_) swatch(look, false);
    if (hidden_) swatch({"#ffffff", "#5a616c", "not yours to take"}, true);
    if (machine_.outer.allowed_cpus)
      item("core not yours to use", [&] {
        svg_.box({x + 5, y_, 12, 12}, {.fill = "#ffffff", .stroke = "#7d8b99", .round = 1}, "sample");
      });
    for (const LinkPicture::Sample& sample : links.samples)
      item(sample.says, [&] { svg_.line(x, y_ + 6.5, x + 24, y_ + 6.5, sample.color, sample.width); });
    for (const LinkKind kind : {LinkKind::pix, LinkKind::pxb})
      if (std::count(pcie_.begin(), pcie_.end(), kind) != 0)
        item(kind == LinkKind::pix ? "PIX: one PCIe switch" : "PXB: several PCIe switches", [&] {
          svg_.box({x, y_, 22, 13}, {.fill = "#f6f8fa", .stroke = wire_color}, "sample");
        });
    y_ += 18;
    std::vector<std::string> notes;
    for (const LinkFact& fact : link_facts(machine_, joins_))
      if (fact.what == "PCIe") notes.push_back("PCIe: " + fact.text);
    if (!overview_.claims_problem.empty()) notes.push_back("claims: " + printable(overview_.claims_problem));
    for (const std::string& note : notes)
      for (const std::string& line : lines_of(note, 10, right - margin)) {
        svg_.text(margin, y_ + 12, line, {.size = 10, .fill = faint_color});
        y_ += line_height;
      }
  }

  const app::Overview& overview_;
  const model::Machine& machine_;
  const app::Joins joins_;
  const app::Arrangement chart_;
  std::vector<std::size_t> body_of_;  // GPU -> the first part of its PCI function
  Svg svg_;
  double y_ = 0, core_pitch_ = 14;
  bool hidden_ = false;
  std::map<std::size_t, Box> spots_;  // of bodies
  std::map<std::string_view, Look> shown_;
  std::vector<LinkKind> pcie_;
};

}  // namespace

std::string render_topo_svg(const app::Overview& overview) { return Picture(overview).document(); }

}  // namespace thole::cli
