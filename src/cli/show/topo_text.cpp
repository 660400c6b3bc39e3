// The machine as text.
//
// How this works: each package becomes a box with a section for each of its NUMA nodes, and what belongs to no package a box
// below. A section is rows: cores, level-3 groups, GPUs (with who has them), NICs. As many boxes stand side by side as the
// screen has room for; the columns within rows are the same in all of them.
#include <algorithm>

#include "base/text.hpp"
#include "cli/show/boxes.hpp"
#include "cli/show/render.hpp"
#include "cli/show/topo.hpp"

namespace thole::cli {

namespace {

using app::Cluster;
using app::Place;
using app::UnitOverview;

constexpr std::size_t narrowest_box = 38, widest_box = 60, widest_alone = 100;

std::string padded(std::string text, std::size_t width) {
  const std::size_t used = columns_of(text);
  return used < width ? text + std::string(width - used, ' ') : text;
}

// The columns of device rows, the same in every box.
struct Widths {
  std::size_t label = 0, model = 0, memory = 0;
  bool brief = false;

  std::size_t all() const { return label + 1 + model + (memory == 0 ? 0 : memory + 1); }
};

class Drawing {
 public:
  Drawing(const app::Overview& overview, const Screen& screen)
      : overview_(overview), machine_(overview.snapshot.machine), screen_(screen), joins_(machine_),
        chart_(app::arrange(machine_, joins_)) {}

  std::string text() {
    std::string text = ink(screen_, Ink::bold, title_of(overview_)) + "\n" + paragraph(screen_, summary_of(machine_));
    if (!chart_.packages.empty()) {
      const std::size_t number = one_package() ? chart_.packages[0].places.size() : chart_.packages.size();
      const std::size_t columns = make_room_for(number);
      text += boxes(screen_, one_package() ? boxes_of_nodes() : boxes_of_packages(), columns, width_);
    }
    if (!chart_.apart.empty()) {
      make_room_for(1);
      text += boxes(screen_, {box_apart()}, 1, width_);
    }
    return text + links();
  }

 private:
  // --- boxes ------------------------------------------------------------------------------------------------------------
  // Nodes get boxes of their own where there is but one package to hold them.
  bool one_package() const { return chart_.packages.size() == 1 && chart_.packages[0].places.size() > 1; }

  // Chooses the width of `number` boxes; returns how many stand side by side.
  std::size_t make_room_for(std::size_t number) {
    const std::size_t fit = std::clamp<std::size_t>((screen_.columns + 1) / (narrowest_box + 1), 1, number);
    const std::size_t rows = (number + fit - 1) / fit, columns = (number + rows - 1) / rows;
    width_ = std::min((screen_.columns + 1) / columns - 1, columns == 1 ? widest_alone : widest_box);
    choose_widths();
    return columns;
  }

  std::size_t inside() const { return width_ - box_frame; }

  std::vector<TextBox> boxes_of_packages() const {
    std::vector<TextBox> boxes;
    for (const app::Package& package : chart_.packages) {
      TextBox box{package.number ? fmt::format("Package {}", *package.number) : "CPUs", {}};
      for (const Place& place : package.places)
        box.sections.push_back({place.numa ? heading_of(place, chart_, machine_) : "", rows_of(place)});
      if (box.sections.size() == 1 && !box.sections[0].title.empty()) {
        box.title += " · " + box.sections[0].title;
        box.sections[0].title.clear();
      }
      boxes.push_back(std::move(box));
    }
    return boxes;
  }

  std::vector<TextBox> boxes_of_nodes() const {
    std::vector<TextBox> boxes;
    for (const Place& place : chart_.packages[0].places)
      boxes.push_back({heading_of(place, chart_, machine_), {{"", rows_of(place)}}});
    return boxes;
  }

  TextBox box_apart() const {
    TextBox box{chart_.packages.empty() ? "CPUs not known" : "In no package", {}};
    std::string memory;  // nodes that hold nothing else
    for (const Place& place : chart_.apart)
      if (place.has_devices() || machine_.cpus.empty())
        box.sections.push_back({heading_of(place, chart_, machine_), rows_of(place)});
      else
        memory += (memory.empty() ? "" : ", ") + node_name(place) + (place.memory_mib ? " " + size_of(*place.memory_mib) : "");
    if (!memory.empty()) box.sections.push_back({"Memory without CPUs", {}});
    for (std::string& line : broken_list(memory, inside(), 3))
      if (!memory.empty()) box.sections.back().rows.push_back({{{std::move(line)}}});
    if (box.sections.size() == 1) {
      box.title = box.sections[0].title;
      box.sections[0].title.clear();
    }
    return box;
  }

  // --- rows -------------------------------------------------------------------------------------------------------------
  void choose_widths() {
    widths_ = {};
    for (std::size_t g = 0; g < machine_.gpus.size(); ++g) {
      widths_.label = std::max(widths_.label, fmt::formatted_size("GPU {}", g));
      const auto measure_memory = [&](const std::optional<std::uint64_t>& mib) {
        if (mib) widths_.memory = std::max(widths_.memory, size_of(*mib).size());
      };
      measure_memory(machine_.gpus[g].memory_mib);
      for (const model::Instance& instance : machine_.gpus[g].mig) measure_memory(instance.memory_mib);
    }
    constexpr std::size_t bracket = 2;
    std::size_t names = 4;  // what should be left to say who has it
    for (const UnitOverview& unit : overview_.units) names = std::max(names, columns_of(holders_of(unit)));
    names = std::min<std::size_t>(names, 17);
    const auto measure = [&] {
      widths_.model = 0;
      for (const model::Gpu& gpu : machine_.gpus)
        widths_.model = std::max(widths_.model, columns_of(gpu_name(gpu, widths_.brief)));
    };
    const auto fits = [&] { return bracket + widths_.all() + 1 + names <= inside(); };
    measure();
    if (!fits()) {
      widths_.brief = true;
      measure();
    }
    if (!fits()) widths_.memory = 0;
    if (!fits()) widths_.model -= std::min(widths_.model - 1, bracket + widths_.all() + 1 + names - inside());
  }

  std::vector<BoxRow> rows_of(const Place& place) const {
    std::vector<BoxRow> rows;
    if (!place.groups.empty())
      for (std::string& line : broken_list(cores_of(place), inside(), 3)) rows.push_back({{{std::move(line)}}});
    if (const std::string caches = l3_of(place); !caches.empty()) rows.push_back({{{caches}}});
    std::vector<std::size_t> single_nics;
    for (const Cluster& cluster : place.clusters) {
      if (!cluster.kind && cluster.gpus.empty()) single_nics.push_back(cluster.nics.front());
      else add_cluster(cluster, rows);
    }
    for (std::string& line : nic_lines(single_nics, inside())) rows.push_back({{{std::move(line)}}});
    return rows;
  }

  void add_cluster(const Cluster& cluster, std::vector<BoxRow>& rows) const {
    std::vector<BoxRow> own;
    for (const std::size_t gpu : cluster.gpus) add_gpu(gpu, own);
    for (std::string& line : nic_lines(cluster.nics, inside() - (cluster.kind ? 6 : 0))) own.push_back({{{std::move(line)}}});
    if (cluster.kind) label(own, class_of(cluster));
    for (std::size_t i = 0; i < own.size(); ++i) {
      const bool first = i == 0, last = i + 1 == own.size();
      if (cluster.kind && own.size() > 1)
        own[i].left.insert(own[i].left.begin(), {first ? "┌ " : last ? "└ " : "│ ", Ink::dim});
      rows.push_back(std::move(own[i]));
    }
  }

  // At the right of the lowest row that has room for it.
  void label(std::vector<BoxRow>& rows, const std::string& text) const {
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      std::size_t used = 2;  // the bracket
      for (const Piece& piece : row->left) used += columns_of(piece.text);
      if (used + 1 + text.size() > inside()) continue;
      row->right = text;
      return;
    }
  }

  bool one_gpu(const Cluster& cluster) const {
    return cluster.nics.empty() && !cluster.gpus.empty() &&
           std::all_of(cluster.gpus.begin(), cluster.gpus.end(),
                       [&](std::size_t gpu) { return gpu == cluster.gpus[0] || joins_.between(gpu, cluster.gpus[0]).same; });
  }

  std::string class_of(const Cluster& cluster) const {
    if (one_gpu(cluster)) return "one GPU";
    return *cluster.kind == model::LinkKind::pix ? "PIX" : "PXB";
  }

  void add_gpu(std::size_t index, std::vector<BoxRow>& rows) const {
    const model::Gpu& gpu = machine_.gpus[index];
    const bool parts = gpu.mig_mode || !gpu.mig.empty();
    BoxRow row{device(fmt::format("GPU {}", index), gpu_name(gpu, widths_.brief), gpu.memory_mib)};
    if (parts) row.left.push_back({gpu.mig.empty() ? "MIG, no instances" : "MIG"});
    for (const UnitOverview& unit : overview_.units)
      if (unit.unit.gpu == index && !unit.unit.instance) add_holders(unit, row);
    rows.push_back(std::move(row));
    for (const UnitOverview& unit : overview_.units) {
      if (unit.unit.gpu != index || !unit.unit.instance) continue;
      const model::Instance& instance = gpu.mig[*unit.unit.instance];
      BoxRow part{device("  " + unit.unit.label, printable(instance.profile, 20), instance.memory_mib)};
      add_holders(unit, part);
      rows.push_back(std::move(part));
    }
  }

  std::vector<Piece> device(std::string label, std::string name, std::optional<std::uint64_t> mib) const {
    std::vector<Piece> line{{padded(std::move(label), widths_.label) + " "}};
    line.push_back({padded(printable(name, widths_.model), widths_.model) + " "});
    if (widths_.memory != 0) line.push_back({fmt::format("{:>{}} ", mib ? size_of(*mib) : "?", widths_.memory)});
    return line;
  }

  static void add_holders(const UnitOverview& unit, BoxRow& row) {
    const Ink color = unit.mine ? Ink::bold : !unit.visible ? Ink::dim : ink_of(unit.state);
    row.left.push_back({holders_of(unit), color});
  }

  // "NIC mlx5_0 mlx5_1 200 Gb/s", a line for each rate.
  std::vector<std::string> nic_lines(const std::vector<std::size_t>& nics, std::size_t width) const {
    std::vector<std::pair<std::string, std::string>> by_rate;
    for (const std::size_t n : nics) {
      const model::Nic& nic = machine_.nics[n];
      auto same = std::find_if(by_rate.begin(), by_rate.end(), [&](const auto& entry) { return entry.first == rate_of(nic); });
      if (same == by_rate.end()) same = by_rate.insert(by_rate.end(), {rate_of(nic), "NIC"});
      same->second += " " + printable(nic.name, 20);
    }
    std::vector<std::string> lines;
    for (const auto& [rate, names] : by_rate) {
      for (std::string& line : broken_list(names, width, 3)) lines.push_back(std::move(line));
      if (rate.empty()) continue;
      if (columns_of(lines.back()) + 1 + rate.size() > width) lines.push_back("   ");
      lines.back() += " " + rate;
    }
    return lines;
  }

  // "L3 0-3 4-7 8-11 12-15" where a node has several, by the first CPU of each core; "12 of 8 cores" where that is too long.
  std::string l3_of(const Place& place) const {
    if (place.groups.size() < 2) return "";
    std::string list = "L3";
    std::size_t most = 0, least = ~std::size_t{0};
    for (const app::CoreGroup& group : place.groups) {
      if (!group.l3) return "";
      model::CpuSet first;
      for (const model::CpuSet& core : group.cores) first.add(core.to_vector().front());
      list += " " + first.to_string();
      most = std::max(most, group.cores.size());
      least = std::min(least, group.cores.size());
    }
    if (most == 1) return "";  // a cache each: no group
    if (columns_of(list) <= inside()) return list;
    const std::string cores = least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
    return fmt::format("L3: {} groups of {} cores", place.groups.size(), cores);
  }

  // --- below ------------------------------------------------------------------------------------------------------------
  std::string links() const {
    std::string text;
    for (const LinkFact& fact : link_facts(machine_, joins_)) {
      constexpr std::size_t name_width = 10;
      text += ink(screen_, Ink::bold, fact.what) + std::string(name_width - std::min(fact.what.size(), name_width - 1), ' ') +
              paragraph(screen_, fact.text, name_width, name_width);
      for (const std::string& row : fact.table) text += "       " + row + "\n";
    }
    const bool pix = has_cluster(model::LinkKind::pix), pxb = has_cluster(model::LinkKind::pxb);
    if (pix || pxb)
      text += ink(screen_, Ink::dim, fmt::format("{}{}{}", pix ? "PIX: one PCIe switch" : "", pix && pxb ? "; " : "",
                                                 pxb ? "PXB: several PCIe switches" : "")) + "\n";
    return text;
  }

  bool has_cluster(model::LinkKind kind) const {
    const auto in = [&](const Place& place) {
      return std::any_of(place.clusters.begin(), place.clusters.end(),
                         [&](const Cluster& cluster) { return cluster.kind == kind && !one_gpu(cluster); });
    };
    return std::any_of(chart_.apart.begin(), chart_.apart.end(), in) ||
           std::any_of(chart_.packages.begin(), chart_.packages.end(), [&](const app::Package& package) {
             return std::any_of(package.places.begin(), package.places.end(), in);
           });
  }

  const app::Overview& overview_;
  const model::Machine& machine_;
  const Screen& screen_;
  const app::Joins joins_;
  const app::Arrangement chart_;
  std::size_t width_ = 0;  // of a box
  Widths widths_;
};

// What this process may use, where that is not everything.
std::string allowed_cpus(const model::Machine& machine, const Screen& screen) {
  if (!machine.outer.allowed_cpus) return "";
  model::CpuSet all;
  for (const model::Cpu& cpu : machine.cpus) all.add(cpu.id);
  if ((all - *machine.outer.allowed_cpus).empty()) return "";
  return paragraph(screen, fmt::format("This process may use CPUs {}.", machine.outer.allowed_cpus->to_string()));
}

}  // namespace

std::string render_topo(const app::Overview& overview, const Screen& screen) {
  std::string text = Drawing(overview, screen).text();
  if (!overview.units.empty()) text += paragraph(screen, sum_of(overview));
  return text + outer_mask(overview, screen) + allowed_cpus(overview.snapshot.machine, screen) + problems_of(overview, screen);
}

}  // namespace thole::cli
