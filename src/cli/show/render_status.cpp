// The status table. One line a unit in machine order, a partitioned GPU above its instances; below it what needs a sentence,
// then the queue. It fits 80 columns on every machine and uses more where there are more.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "cli/show/render.hpp"

namespace thole::cli {

namespace {

using app::State;
using app::UnitOverview;

enum Head { gpu, model_name, memory, load, temperature, state, owner, since, until, command };
constexpr Column status_columns[] = {{"GPU"},   {"MODEL"}, {"MEMORY", true}, {"UTIL", true}, {"TEMP", true},
                              {"STATE"}, {"OWNER"}, {"SINCE"},        {"UNTIL"},      {"COMMAND"}};
constexpr Squeeze squeezes[] = {{owner, 16}, {command, 50},    {since, 0},  {command, 24},    {model_name, 0},
                                {until, 0},  {command, 14},    {owner, 8},  {model_name, 14}, {command, 8},
                                {temperature, left_out}, {since, left_out}, {owner, 6}, {model_name, 10}, {command, 1}};

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

// "14:20" today, else the day: "Tue", "2026-11-21" loses its year.
std::string brief_day(const std::string& clock) {
  if (clock.size() >= 16) return clock.substr(5, 5);
  const std::size_t blank = clock.find(' ');
  return blank == std::string::npos ? clock : clock.substr(0, blank);
}

Cell when(WallTime time, WallTime now) {
  if (time == WallTime{}) return {"-"};
  const std::string text = format_local(time, now);
  return {text, brief_day(text)};
}

Cell until_when(const std::optional<WallTime>& time, WallTime now) {
  if (!time) return {"-"};
  const std::string text = format_local(*time, now);
  // The day of an end is not enough: "Tue 14:20" becomes "Tue14h".
  const std::size_t colon = text.find(':');
  std::string brief =
      text.size() > 5 && text.size() < 16 && colon >= 2 ? text.substr(0, 3) + text.substr(colon - 2, 2) + "h" : brief_day(text);
  return {text, brief};
}

std::string what_it_is_for(const model::Holding& holding) {
  const std::string command = printable(holding.command);
  if (!holding.shared || !holding.memory_mib) return command;
  return fmt::format("[{:.3g}G] {}", static_cast<double>(*holding.memory_mib) / 1024, command);
}

class StatusTable {
 public:
  StatusTable(const app::Overview& overview, const Screen& screen) : overview_(overview), screen_(screen) {}

  std::string text() {
    const auto& gpus = overview_.snapshot.machine.gpus;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      if (gpus[g].mig_mode || !gpus[g].mig.empty()) add_parent(g);
      for (const UnitOverview& row : overview_.units)
        if (row.unit.gpu == g) add_unit(row);
    }
    for (const model::Holding& holding : overview_.unseen) add_unseen(holding);
    return table(screen_, status_columns, rows_, squeezes);
  }

 private:
  void add_parent(std::size_t g) {
    const model::Gpu& whole = overview_.snapshot.machine.gpus[g];
    Row row = figures(std::to_string(g), short_model(whole.model), whole.use, whole.memory_mib);
    row.cells.push_back({"MIG"});
    row.cells.insert(row.cells.end(), 3, Cell{"-"});
    const bool told = whole.health == model::Health::ok;
    row.cells.push_back({!whole.mig.empty() ? "" : told ? "no instances" : to_string(whole.health)});
    rows_.push_back(std::move(row));
  }

  void add_unit(const UnitOverview& unit) {
    const model::Machine& machine = overview_.snapshot.machine;
    std::string name = unit.unit.instance ? unit.unit.gpu_of(machine).mig[*unit.unit.instance].profile
                                          : short_model(unit.unit.gpu_of(machine).model);
    Row row = figures(unit.unit.label, std::move(name), unit.unit.use_of(machine), unit.unit.memory_mib_of(machine));
    row.cells.push_back({upper(app::to_string(unit.state)), "", unit.mine || !unit.visible ? Ink::plain : ink_of(unit.state)});
    row.color = unit.mine ? Ink::bold : unit.visible ? Ink::plain : Ink::dim;
    if (unit.holdings.empty()) {
      add_strangers(row, unit);
      rows_.push_back(std::move(row));
      return;
    }
    for (const model::Holding& holding : unit.holdings) {  // each further sharer on a line of its own
      add_holding(row, holding);
      rows_.push_back(row);
      row.cells.assign(state + 1, Cell{""});
    }
  }

  void add_unseen(const model::Holding& holding) {
    Row row;
    row.cells = {{"?"}, {printable(holding.key, 40)}, {"?"}, {"?"}, {"?"}, {holding.shared ? "SHARED" : "CLAIMED"}};
    add_holding(row, holding);
    rows_.push_back(std::move(row));
  }

  static Row figures(std::string label, std::string name, const model::Use& use, std::optional<std::uint64_t> total) {
    Row row;
    if (name.empty()) name = "?";
    row.cells = {{std::move(label)},
                 {printable(name), brief_model(printable(name))},
                 {memory_use(use.memory_used_mib, total)},
                 {figure(use.utilization_percent, "%")},
                 {figure(use.temperature_c, "C")}};
    return row;
  }

  void add_strangers(Row& row, const UnitOverview& unit) const {
    const bool display = unit.unit.gpu_of(overview_.snapshot.machine).display.value_or(false);
    if (unit.state == State::idle) {  // a desktop's processes are no use that counts
      row.cells.insert(row.cells.end(), {{"-"}, {"-"}, {"-"}, {display ? "(drives a display)" : "-"}});
      return;
    }
    std::string users, what;
    for (const model::GpuProcess& process : unit.strangers) {
      const std::string user = process.user.empty() ? "?" : process.user;
      if (("," + users + ",").find("," + user + ",") == std::string::npos) users += (users.empty() ? "" : ",") + user;
      if (!what.empty()) continue;
      what = process.pid > 0 ? fmt::format("pid {}", process.pid) : "pid unknown";
      if (!process.command.empty()) what = process.command;
    }
    if (unit.strangers.size() > 1) what += fmt::format(" and {} more", unit.strangers.size() - 1);
    row.cells.insert(row.cells.end(),
                     {{users.empty() ? "-" : printable(users)}, {"-"}, {"-"}, {what.empty() ? "-" : printable(what)}});
  }

  void add_holding(Row& row, const model::Holding& holding) const {
    row.cells.insert(row.cells.end(),
                     {{holder_name(holding)}, when(holding.since, overview_.now), until_when(holding.until, overview_.now)});
    row.cells.push_back({what_it_is_for(holding)});
  }

  const app::Overview& overview_;
  const Screen& screen_;
  std::vector<Row> rows_;
};

std::string notes(const app::Overview& overview, const Screen& screen) {
  std::string text;
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // why, and of whom: one line where many have the same
  for (const UnitOverview& unit : overview.units) {
    if (unit.why.empty() || (unit.state == State::foreign && !unit.strangers.empty())) continue;
    const auto same = std::ranges::find(reasons, unit.why, [](const auto& reason) { return reason.first; });
    if (same != reasons.end()) same->second.push_back(unit.unit.label);
    else reasons.push_back({unit.why, {unit.unit.label}});
  }
  for (const auto& [why, labels] : reasons)
    text += paragraph(screen, fmt::format("GPU{} {}: {}", labels.size() == 1 ? "" : "s", join(labels, ", "), printable(why)));
  const auto& gpus = overview.snapshot.machine.gpus;
  for (std::size_t g = 0; g < gpus.size(); ++g)  // a sick one has its reason above
    if (gpus[g].last_xid && gpus[g].health == model::Health::ok && !app::is_programs_fault(*gpus[g].last_xid))
      text += paragraph(screen, fmt::format("GPU {}: the last Xid that the driver reported is {}", g, *gpus[g].last_xid));
  return text;
}

// "4 of GPU 0-7, 20 GiB each, for 2h"
std::string wants(const model::Waiting& waiting, const app::Overview& overview) {
  std::vector<std::string> eligible;
  for (const UnitOverview& unit : overview.units)
    if (std::find(waiting.eligible.begin(), waiting.eligible.end(), unit.unit.key) != waiting.eligible.end())
      eligible.push_back(unit.unit.label);
  std::string text = std::to_string(waiting.count);
  if (eligible.size() == overview.units.size())
    text += waiting.count == 1 ? " GPU" : " GPUs";
  else
    text += " of GPU " + join(eligible, ",");
  if (waiting.memory_mib != 0)
    text += fmt::format(", {}{}", waiting.shared ? "shared " : "", format_mib(waiting.memory_mib));
  if (waiting.time) text += ", for " + format_duration(*waiting.time);
  return text;
}

std::string queue(const app::Overview& overview, const Screen& screen) {
  if (overview.queue.empty()) return "";
  constexpr Column heads[] = {{"WAITING", true}, {"USER"}, {"SINCE"}, {"STARTS BY"}, {"WANTS"}};
  constexpr Squeeze steps[] = {{4, 20}, {2, 0}, {1, 8}, {4, 1}};
  std::vector<Row> rows;
  for (std::size_t i = 0; i < overview.queue.size(); ++i) {
    const auto& [waiting, promise] = overview.queue[i];
    Row row;
    row.color = waiting.mine || waiting.uid == overview.uid ? Ink::bold : Ink::plain;
    row.cells = {{std::to_string(i + 1)},
                 {printable(waiting.user)},
                 when(waiting.since, overview.now),
                 {waiting.stopped ? "stopped" : promise ? format_local(*promise, overview.now) : "-"},
                 {wants(waiting, overview)}};
    rows.push_back(std::move(row));
  }
  return "\n" + table(screen, heads, std::move(rows), steps);
}

std::string claims(const app::Overview& overview, const Screen& screen) {
  constexpr Column heads[] = {{"GPU"}, {"OWNER"}, {"SINCE"}, {"UNTIL"}, {"COMMAND"}};
  constexpr Squeeze steps[] = {{1, 16}, {4, 50}, {2, 0}, {4, 24}, {3, 0}, {0, 16}, {1, 8}, {4, 1}};
  std::vector<Row> rows;
  const auto add = [&](const std::string& gpu, const model::Holding& holding, bool mine) {
    Row row;
    row.color = mine ? Ink::bold : Ink::plain;
    row.cells = {{gpu}, {holder_name(holding)}, when(holding.since, overview.now), until_when(holding.until, overview.now),
                 {what_it_is_for(holding)}};
    rows.push_back(std::move(row));
  };
  for (const UnitOverview& unit : overview.units)
    for (const model::Holding& holding : unit.holdings) add(unit.unit.label, holding, unit.mine);
  for (const model::Holding& holding : overview.unseen) add(printable(holding.key, 40), holding, holding.uid == overview.uid);
  return rows.empty() ? "" : table(screen, heads, std::move(rows), steps);
}

}  // namespace

std::string render_status(const app::Overview& overview, const Screen& screen) {
  std::string text;
  if (overview.snapshot.simulated) {
    const std::string& name = overview.snapshot.machine.name;
    text = fmt::format("{}simulated machine\n", name.empty() ? "" : printable(name, 60) + ", ");
  }
  if (overview.snapshot.machine.gpus.empty() && overview.unseen.empty()) {
    text += "This machine has no GPU that thole can see.\n" + problems_of(overview, screen);
    return text + "Try a simulated one: thole --machine dgx-a100 status\n";
  }
  text += StatusTable(overview, screen).text();
  text += paragraph(screen, sum_of(overview)) + outer_mask(overview, screen) + notes(overview, screen) +
          problems_of(overview, screen);
  return text + queue(overview, screen);
}

std::string render_claims(const app::Overview& overview, const Screen& screen) {
  const std::string held = claims(overview, screen);
  std::string text = paragraph(screen, fmt::format("The driver has not answered yet. {}",
                                                   !overview.claims_problem.empty() ? "claims: " + overview.claims_problem
                                                   : held.empty()                   ? "Nobody has claimed a GPU."
                                                                                    : "Claimed are:"));
  return text + held + queue(overview, screen);
}

}  // namespace thole::cli
