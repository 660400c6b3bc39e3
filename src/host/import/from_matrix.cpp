// How this works: the header names the columns; everything before the word "Affinity" columns is a GPU or a NIC. A row is its
// label, one cell for each of those, and what is left: CPU, NUMA and GPU NUMA columns. Rows are split at any white space,
// because the number of tabs between the last columns depends on the length of the words; when one word is missing there it is
// the CPU affinity, which is empty inside a cpuset without CPUs near that GPU. A table that was pasted as a comment has "# "
// before each line. One that a terminal has wrapped or cut would be another machine's: so nothing may stand between the rows,
// and after the last one no piece of a row.
#include "host/import/from_matrix.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

using Words = std::vector<std::string>;

struct Cell {
  bool self = false;
  std::optional<model::LinkKind> kind;   // absent where the driver could not tell ("N/A")
  std::optional<int> count;
};

struct Row {
  std::vector<Cell> cells;
  std::optional<model::CpuSet> cpus;
  bool cut = false;                      // there may be more of them than the table shows
  std::optional<int> numa;
  std::optional<int> own_node;           // its memory is this NUMA node of the host
};

// Without "ESC [ … letter" (the header is underlined also when nobody looks) and the mark with which Windows begins a text.
std::string without_escapes(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && !(text[i] >= '@' && text[i] <= '~')) ++i;
    } else {
      plain += text[i] == '\r' ? ' ' : text[i];
    }
  }
  return plain;
}

// Without the "# ", "// " or "> " of a comment or a quotation.
std::string_view uncommented(std::string_view line) {
  for (const std::string_view sign : {"#", "//", ">"})
    if (line.starts_with(sign)) return line.substr(sign.size());
  return line;
}

Words words_of(std::string_view line) {
  line = uncommented(line);
  Words words;
  std::size_t at = 0;
  while ((at = line.find_first_not_of(" \t", at)) != line.npos) {
    const auto end = line.find_first_of(" \t", at);
    words.emplace_back(line.substr(at, end - at));
    if (end == line.npos) break;
    at = end;
  }
  return words;
}

std::optional<std::uint64_t> count_after(std::string_view word, std::string_view prefix) {
  return word.starts_with(prefix) ? parse_u64(word.substr(prefix.size())) : std::nullopt;
}

std::optional<Cell> parse_cell(std::string_view word) {
  if (word == "X") return Cell{true, std::nullopt, std::nullopt};
  if (word == "N/A") return Cell{};
  if (auto count = count_after(word, "NV"); count && *count > 0 && *count <= 64)
    return Cell{false, model::LinkKind::nvlink, static_cast<int>(*count)};
  if (word == "SOC") word = "SYS";       // drivers before 387
  if (word == "C2C") return Cell{false, model::LinkKind::c2c, std::nullopt};
  if (word == "XGMI") return Cell{false, model::LinkKind::xgmi, std::nullopt};  // as thole topo --matrix writes it
  for (auto kind :
       {model::LinkKind::pix, model::LinkKind::pxb, model::LinkKind::phb, model::LinkKind::node, model::LinkKind::sys})
    if (to_lower(word) == model::to_string(kind)) return Cell{false, kind, std::nullopt};
  return std::nullopt;
}

bool is_header(const Words& words) {
  return words.size() >= 2 && words[0] == "GPU0" && !parse_cell(words[1]) &&
         (words[1] == "GPU1" || std::find(words.begin(), words.end(), "Affinity") != words.end());
}

// What is left of a wrapped row: connections, CPUs, nodes, or the tail of one of these.
bool is_piece(const Words& words) {
  constexpr std::string_view signs = "0123456789,-/ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word.find_first_not_of(signs) == word.npos; });
}

// One number after the other at equal steps, up to where the column ends.
bool looks_cut(std::string_view list) {
  constexpr std::size_t column = 14;
  std::vector<std::uint64_t> numbers;
  for (const std::string_view part : split(list, ',')) {
    const auto number = parse_u64(part);
    if (!number) return false;
    numbers.push_back(*number);
  }
  if (numbers.size() < 3 || numbers[1] <= numbers[0] + 1) return false;
  const std::uint64_t step = numbers[1] - numbers[0];
  for (std::size_t i = 2; i < numbers.size(); ++i)
    if (numbers[i] - numbers[i - 1] != step) return false;
  return list.size() + 1 + std::to_string(numbers.back() + step).size() > column;
}

class Table {
 public:
  Table(const std::string& text, const std::string& what) : lines_(split_lines(text)), what_(what) {}

  // "GPUs 0,1: …", of lists of CPUs that look cut. nvidia-smi cuts them where the column ends: machines whose CPUs are numbered
  // by rounds over the sockets show "0,2,4,6,8,10" and no more of 32 CPUs (seen from driver 525 to 580).
  std::optional<std::string> cut_lists() const {
    std::vector<std::string> gpus;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (is_gpu(i) && rows_[i]->cut) gpus.push_back(names_[i].substr(3));
    if (gpus.empty()) return std::nullopt;
    return fmt::format(
        "GPU{} {}: the list of near CPUs may be cut, nvidia-smi topo -m has no room for more; capture that machine "
        "itself (thole capture) before binding by it",
        gpus.size() == 1 ? "" : "s", join(gpus, ","));
  }

  model::Machine machine() {
    read_header();
    read_rows();
    model::Machine machine;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (is_gpu(i)) machine.gpus.push_back(gpu(i));
      else machine.nics.push_back(nic(i));
    }
    add_cpus(machine);
    return machine;
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& why) const {
    throw Error(ErrorCode::usage, fmt::format("line {}: {}", line + 1, why)).about(printable(what_, 200))
        .hint("give the whole output of nvidia-smi topo -m, unwrapped (nvidia-smi topo -m > FILE)");
  }

  bool is_gpu(std::size_t column) const { return count_after(names_[column], "GPU").has_value(); }

  void read_header() {
    while (header_ < lines_.size() && !is_header(words_of(lines_[header_]))) ++header_;
    if (header_ == lines_.size()) fail(0, "no header that begins with GPU0");
    for (const std::string& word : words_of(lines_[header_])) {
      if (word == "CPU" || word == "NUMA") break;
      if (std::find(names_.begin(), names_.end(), word) != names_.end()) fail(header_, printable(word, 40) + " is there twice");
      names_.push_back(word);
    }
    if (lines_[header_].find("Affinity") == std::string_view::npos)
      fail(header_, "no column \"CPU Affinity\": the table is wrapped or cut");
    for (std::string_view column : {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"})
      if (lines_[header_].find(column) != std::string_view::npos) columns_.emplace_back(column);
    if (names_.size() > 512) fail(header_, "more than 512 devices");
  }

  void read_rows() {
    rows_.resize(names_.size());
    bool over = false;                                     // what follows is the legend, or no longer the table
    for (std::size_t line = header_ + 1; line < lines_.size(); ++line) {
      const Words words = words_of(lines_[line]);
      if (words.empty()) over = over || all_gpus_have_rows();
      if (words.empty()) continue;
      if (is_header(words)) break;                         // a second table
      over = over || words[0] == "Legend:";
      if (words[0].ends_with(":")) read_legend(words);     // "NIC0: mlx5_0"
      const auto name = std::find(names_.begin(), names_.end(), words[0]);
      if (name == names_.end()) {
        if (!over && (!all_gpus_have_rows() || is_piece(words)))
          fail(line, printable(words[0], 40) + " begins no row: the table is wrapped or incomplete");
        continue;
      }
      std::optional<Row>& row = rows_[static_cast<std::size_t>(name - names_.begin())];
      if (row) fail(line, printable(words[0], 40) + " is there twice");
      row = read_row(line, words);
    }
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (is_gpu(i) && !rows_[i]) fail(header_, printable(names_[i], 40) + " has no line of its own");
  }

  bool all_gpus_have_rows() const {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (is_gpu(i) && !rows_[i]) return false;
    return true;
  }

  Row read_row(std::size_t line, const Words& words) const {
    Row row;
    std::size_t next = 1;
    for (; next < words.size() && row.cells.size() < names_.size(); ++next) take_cells(line, words[next], row);
    if (row.cells.size() != names_.size())
      fail(line, fmt::format("{} has {} of {} connections", printable(words[0], 40), row.cells.size(), names_.size()));
    take_columns(line, {words.begin() + static_cast<std::ptrdiff_t>(next), words.end()}, row);
    return row;
  }

  // Some tools that expand the tabs join two cells: "NODENODE", "NODEPIX".
  void take_cells(std::size_t line, std::string_view word, Row& row) const {
    while (!word.empty()) {
      std::size_t length = word.size();
      while (length > 0 && !parse_cell(word.substr(0, length))) --length;
      if (length == 0) fail(line, "no kind of connection: " + printable(word, 40));
      row.cells.push_back(*parse_cell(word.substr(0, length)));
      word.remove_prefix(length);
    }
  }

  void take_columns(std::size_t line, Words words, Row& row) const {
    if (words.size() + 1 == columns_.size() && columns_.front() == "CPU Affinity") words.insert(words.begin(), "");
    for (std::size_t i = 0; i < words.size() && i < columns_.size(); ++i) {
      const std::string& word = words[i];
      if (word.empty() || word == "N/A") continue;
      const auto number = parse_u64(word);
      if (columns_[i] == "CPU Affinity") {
        row.cpus = model::CpuSet::parse(word);
        row.cut = looks_cut(word);
        if (!row.cpus) fail(line, "no list of CPUs: " + printable(word, 40));
      } else if (columns_[i] == "NUMA Affinity" && number && *number < 1024) {
        row.numa = static_cast<int>(*number);              // "0-1" is no one node
      } else if (columns_[i] == "GPU NUMA ID") {
        if (number && *number < 1024) row.own_node = static_cast<int>(*number);
      }
    }
  }

  void read_legend(const Words& words) {
    const std::string name = words[0].substr(0, words[0].size() - 1);
    for (std::size_t i = 0; i < names_.size() && words.size() == 2; ++i)
      if (names_[i] == name && !is_gpu(i)) called_[i] = words[1];
  }

  model::PciAddress address(std::size_t column) const {
    const auto position =
        std::count_if(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(column),
                      [&](const std::string& name) { return count_after(name, "GPU").has_value() == is_gpu(column); });
    model::PciAddress address;
    address.domain = is_gpu(column) ? 0xff00 : 0xff01;
    address.bus = static_cast<std::uint8_t>(position & 0xff);
    address.device = static_cast<std::uint8_t>(position >> 8 & 0x1f);
    return address;
  }

  model::Gpu gpu(std::size_t column) const {
    constexpr int most_links = 18;                         // of any one GPU up to now (Hopper, Blackwell)
    const Row& row = *rows_[column];
    model::Gpu gpu;
    gpu.vendor = model::Vendor::nvidia;
    gpu.pci = address(column);
    gpu.numa = row.numa;
    gpu.near_cpus.node = row.cpus;
    gpu.memory_numa = row.own_node;
    gpu.coherent = row.own_node.has_value();
    int links = 0;
    for (const Cell& cell : row.cells) {
      links += cell.count.value_or(0);
      if (cell.kind == model::LinkKind::xgmi) gpu.vendor = model::Vendor::amd;
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Cell& cell = row.cells[i];
      if (i == column || cell.self || !cell.kind) continue;
      model::Link& link = gpu.links.emplace_back();
      link.to = address(i);
      link.kind = cell.kind == model::LinkKind::nvlink && links > most_links ? model::LinkKind::nvswitch : *cell.kind;
      link.count = cell.count;
    }
    return gpu;
  }

  model::Nic nic(std::size_t column) const {
    model::Nic nic;
    nic.name = called_.contains(column) ? called_.at(column) : names_[column];
    nic.pci = address(column);
    nic.numa = node_of_nic(column);
    for (std::size_t i = 0; rows_[column] && i < names_.size(); ++i) {
      const Cell& cell = rows_[column]->cells[i];
      if (i != column && !is_gpu(i) && cell.kind)
        nic.links.push_back({address(i), *cell.kind, cell.count, std::nullopt});
    }
    return nic;
  }

  // That of the GPUs which reach it without leaving their node, if they agree on one.
  std::optional<int> node_of_nic(std::size_t column) const {
    std::optional<int> node;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!is_gpu(i) || !rows_[i]->numa) continue;
      const std::optional<model::LinkKind> kind = rows_[i]->cells[column].kind;
      if (!kind || *kind < model::LinkKind::pix || *kind > model::LinkKind::node) continue;
      if (node && *node != *rows_[i]->numa) return std::nullopt;
      node = rows_[i]->numa;
    }
    return node;
  }

  void add_cpus(model::Machine& machine) const {
    std::map<unsigned, std::optional<int>> nodes;
    std::set<int> numa;
    for (const std::optional<Row>& row : rows_) {
      if (!row) continue;
      if (row->numa) numa.insert(*row->numa);
      if (row->own_node) numa.insert(*row->own_node);      // a node with memory and without CPUs
      if (row->cpus)
        for (unsigned cpu : row->cpus->to_vector()) nodes.emplace(cpu, row->numa);
    }
    for (const auto& [id, node] : nodes) {
      model::Cpu& cpu = machine.cpus.emplace_back();
      cpu.id = id;
      cpu.numa = node;
    }
    for (int id : numa) machine.numa.emplace_back().id = id;
  }

  std::vector<std::string_view> lines_;
  const std::string& what_;
  std::size_t header_ = 0;
  Words names_;                          // of the columns that are devices
  std::vector<std::string> columns_;     // the others
  std::vector<std::optional<Row>> rows_;
  std::map<std::size_t, std::string> called_;
};

}  // namespace

bool has_matrix(std::string_view text) {
  const std::string plain = without_escapes(text);
  const auto lines = split_lines(plain);
  return std::any_of(lines.begin(), lines.end(), [](std::string_view line) { return is_header(words_of(line)); });
}

model::Machine machine_of_matrix(std::string_view text, const std::string& what, std::vector<std::string>* doubts) {
  const std::string plain = without_escapes(text);
  Table table(plain, what);
  model::Machine machine = table.machine();
  if (const auto cut = table.cut_lists(); cut && doubts) doubts->push_back(*cut);
  return machine;
}

}  // namespace thole::host
