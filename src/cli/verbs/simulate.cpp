// thole simulate: what the rule of the claim queue would have made of recorded jobs, beside plain order and whoever fits first.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/simulate/simulate.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "model/json_null.hpp"
#include "wire/queue.hpp"

namespace thole::cli {

namespace {

struct SimulateOptions {
  bool history = false;
  std::string vc;                       // "" = all
  std::optional<unsigned> gpus, max_width;
  std::optional<double> declared;       // 0: nobody declares
  double declaring_percent = 100;       // of the jobs
  std::string policy = "thole";
};

constexpr Option simulate_options[] = {
  {0, "history", "", "the jobs of your own queue on this machine instead of a trace",
   [](SimulateOptions& o, const Word&) { o.history = true; }},
  {0, "vc", "NAME", "only the jobs of this virtual cluster (default: all)",
   [](SimulateOptions& o, const Word& w) { o.vc = text_of(w); }},
  {'g', "gpus", "N", "how many GPUs there are, all alike (--history: those of this machine)",
   [](SimulateOptions& o, const Word& w) { o.gpus = number_of(w, 1, model::max_slots); }},
  {0, "max-width", "N", "leave out jobs of more than N GPUs (default: as many as there are)",
   [](SimulateOptions& o, const Word& w) { o.max_width = number_of(w, 1, 4096); }},
  {0, "declared", "FACTOR", "declared time: FACTOR times what a job took, or none (default 2; --history: its own --time)",
   [](SimulateOptions& o, const Word& w) { o.declared = factor_of(w); }},
  {0, "declaring", "PERCENT", "how many of the jobs declare a time, the same ones in each run (default 100%)",
   [](SimulateOptions& o, const Word& w) { o.declaring_percent = percent_of(w); }},
  {0, "policy", "POLICY", "the policy to compare with fifo and first-fit (default thole)",
   [](SimulateOptions& o, const Word& w) { o.policy = choice_of(w, "thole|fifo|first-fit|easy"); },
   Offer::choices, "thole|fifo|first-fit|easy"},
};

constexpr std::size_t largest_trace = 1u << 30;
constexpr double usual_declared = 2.0;             // people ask for about twice what they need

std::string duration(double seconds) { return format_duration(Seconds{static_cast<long>(seconds + 0.5)}); }

// By plain order; nothing where plain order made nobody wait.
std::optional<double> ratio(double own, double fifo) { return fifo > 0 ? std::optional(own / fifo) : std::nullopt; }

const plan::Played& fifo_of(const std::vector<plan::Played>& all) {
  for (const plan::Played& played : all)
    if (played.policy == plan::QueuePolicy::fifo) return played;
  return all.front();
}

model::Json waits_to_json(const plan::Waits& waits, const plan::Waits& fifo) {
  if (waits.jobs == 0)
    return {{"jobs", 0}, {"mean_s", nullptr}, {"median_s", nullptr}, {"p95_s", nullptr}, {"mean_by_fifo", nullptr}};
  const auto by_fifo = ratio(waits.mean_s, fifo.mean_s);
  return {{"jobs", waits.jobs}, {"mean_s", waits.mean_s}, {"median_s", waits.median_s}, {"p95_s", waits.p95_s},
          {"mean_by_fifo", model::or_null(by_fifo)}};
}

model::Json to_json(const std::vector<plan::Played>& all, const app::Recorded& recorded, unsigned gpus) {
  model::Json json = {{"schema", "thole/simulation/1"}, {"gpus", gpus}, {"jobs", recorded.jobs.size()},
                      {"too_wide", recorded.too_wide}, {"wide_gpus", plan::wide_gpus}, {"policies", model::Json::array()}};
  const plan::Played& fifo = fifo_of(all);
  for (const plan::Played& played : all)
    json["policies"].push_back({{"policy", plan::to_string(played.policy)},
                                {"wait", waits_to_json(played.all, fifo.all)},
                                {"wait_of_wide", waits_to_json(played.wide, fifo.wide)},
                                {"use_percent", 100 * played.use},
                                {"promised", played.promised},
                                {"late", played.late},
                                {"later_than_fifo", plan::later_than(played, fifo)}});
  return json;
}

std::string render(const std::vector<plan::Played>& all, const app::Recorded& recorded, unsigned gpus, const Screen& screen) {
  std::string text = fmt::format("{} jobs on {} GPUs, {} of them for {} or more", recorded.jobs.size(), gpus,
                                 all.front().wide.jobs, plan::wide_gpus);
  if (recorded.too_wide > 0) text += fmt::format("; {} wider ones left out", recorded.too_wide);
  text = paragraph(screen, text) + "\n";
  const Column columns[] = {{"POLICY"}, {"MEAN WAIT", true}, {"MEDIAN", true}, {"P95", true}, {"BY FIFO", true},
                            {"MEAN WIDE", true}, {"BY FIFO", true}, {"USE", true}, {"LATE", true}, {"LATER", true}};
  const plan::Played& fifo = fifo_of(all);
  const auto by = [](double own, double other) {
    const auto value = ratio(own, other);
    return value ? fmt::format("{:.2f}", *value) : std::string("-");
  };
  std::vector<Row> rows;
  for (const plan::Played& played : all)
    rows.push_back({{{plan::to_string(played.policy)}, {duration(played.all.mean_s)}, {duration(played.all.median_s)},
                     {duration(played.all.p95_s)}, {by(played.all.mean_s, fifo.all.mean_s)},
                     {played.wide.jobs ? duration(played.wide.mean_s) : "-"}, {by(played.wide.mean_s, fifo.wide.mean_s)},
                     {fmt::format("{:.1f}%", 100 * played.use)}, {std::to_string(played.late)},
                     {std::to_string(plan::later_than(played, fifo))}}});
  text += table(screen, columns, std::move(rows), {});
  const std::string legend = fmt::format("MEAN WIDE: of the jobs for {} or more GPUs. LATE: starts after the start that the "
                                         "rule could promise a job while it waited. LATER: starts after the start of the same "
                                         "job in plain order.", plan::wide_gpus);
  return text + "\n" + paragraph(screen, legend);
}

app::TraceWish wish_of(const SimulateOptions& options, unsigned gpus) {
  app::TraceWish wish;
  wish.vc = options.vc;
  wish.max_width = std::min(options.max_width.value_or(gpus), gpus);
  wish.declared = options.declared;
  wish.declaring_percent = options.declaring_percent;
  return wish;
}

app::Recorded of_trace(const std::string& file, app::TraceWish wish) {
  if (!wish.declared) wish.declared = usual_declared;
  const auto text = read_file(file, largest_trace);
  if (!text) throw Error(ErrorCode::unavailable, "cannot read the trace").about(file).because(errno);
  return app::read_trace(*text, file, wish);
}

app::Recorded of_history(Context& context, const app::TraceWish& wish) {
  if (!wish.vc.empty()) throw Error(ErrorCode::usage, "--vc selects jobs of a trace").hint("leave out --vc, or --history");
  wire::Queue* queue = context.wire.find_queue();
  return queue ? app::read_history(queue->jobs(), wish) : app::Recorded{};
}

unsigned gpus_here(Context& context) {
  const std::size_t gpus = context.wire.observer().look(context.wire.settings().probe_cold).machine.gpus.size();
  return static_cast<unsigned>(std::min(gpus, model::max_slots));
}

int simulate(Context& context) {
  const SimulateOptions& options = context.invocation.own.as<SimulateOptions>();
  const std::vector<std::string>& words = context.invocation.words;
  if (words.empty() != options.history)
    throw Error(ErrorCode::usage, words.empty() ? "simulate needs a trace, or --history" : "a trace, or --history, not both")
        .hint("a trace is a CSV file whose first row is arrival_s,duration_s,num_gpus,vc");
  if (!options.gpus && !options.history) throw Error(ErrorCode::usage, "how many GPUs?").hint("thole simulate TRACE --gpus 8");
  const unsigned gpus = options.gpus ? *options.gpus : gpus_here(context);
  const app::TraceWish wish = wish_of(options, gpus);
  const app::Recorded recorded = options.history ? of_history(context, wish) : of_trace(words.front(), wish);
  if (recorded.jobs.empty())
    throw Error(ErrorCode::usage, fmt::format("there is no job of at most {} GPUs that ran to its end", wish.max_width))
        .about(options.history ? "the queue of this machine" : words.front());
  const std::vector<plan::Played> all = app::compare(recorded, gpus, *plan::parse_queue_policy(options.policy));
  if (context.invocation.global.json) context.print_json(to_json(all, recorded, gpus));
  else context.print(render(all, recorded, gpus, context.screen));
  return 0;
}

constexpr Example simulate_examples[] = {
  {"thole simulate jobs.csv --gpus 8", "how long the jobs of a trace would have waited on eight GPUs"},
  {"thole simulate jobs.csv --vc 11cb48 --gpus 16 --declared 2.0 --json", "those of one team, for a program"},
  {"thole simulate --history --gpus 6", "your own queue's past, with two GPUs less"},
};

}  // namespace

extern constexpr Verb simulate_verb = {
    .name = "simulate",
    .group = "queue",
    .summary = "what the queue's rule makes of recorded jobs, beside plain order",
    .operands = "[TRACE]",
    .options = simulate_options,
    .examples = simulate_examples,
    .offer = Offer::files,
    .max_words = 1,
    .run = simulate,
};

}  // namespace thole::cli
