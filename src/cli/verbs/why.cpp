#include "app/show/why.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/queue/job_names.hpp"
#include "app/queue/why_job.hpp"
#include "app/show/why_claim.hpp"
#include "base/text.hpp"
#include "cli/claim_search.hpp"
#include "cli/context.hpp"
#include "cli/line/request.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/queue_site.hpp"
#include "cli/show/overview.hpp"
#include "cli/show/render.hpp"
#include "cli/show/render_run.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

namespace {

// A word names what there is, the request what might be.
void check_why(const Invocation& line) {
  if (line.words.empty()) return;
  for (const Option& option : request_rows)
    if (line.given(option.name))
      throw Error(ErrorCode::usage, fmt::format("why: --{} is of a request, and {} names what there is: one or the other",
                                                option.name, in_quotes(line.words.front())))
          .hint(fmt::format("such as: thole why {}, or: thole why -g 2", printable(line.words.front(), 40)));
}

using app::UnitWhy;

// Units of which the same is to be said are named together.
std::string render(const std::vector<UnitWhy>& units, const Screen& screen) {
  std::string text;
  std::vector<bool> told(units.size(), false);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (told[i]) continue;
    std::vector<std::string> labels;
    for (std::size_t j = i; j < units.size(); ++j) {
      if (units[j].sentences != units[i].sentences) continue;
      labels.push_back(units[j].unit);
      told[j] = true;
    }
    const std::string begin = fmt::format("GPU {}: ", join(labels, ","));
    for (std::size_t line = 0; line < units[i].sentences.size(); ++line) {
      const std::string sentence = printable(units[i].sentences[line]);
      text += line == 0 ? paragraph(screen, begin + sentence, 4) : "  " + paragraph(screen, sentence, 4, 2);
    }
  }
  return text;
}

model::Json unit_why_to_json(const UnitWhy& unit) {
  return {{"unit", unit.unit}, {"state", app::to_string(unit.state)}, {"why", unit.sentences}};
}

std::string render(const app::JobWhy& job, const Screen& screen) {
  std::string text = paragraph(screen, fmt::format("job {}: {}", job.name, job.state), 4);
  for (const std::string& sentence : job.sentences) text += "  " + paragraph(screen, printable(sentence), 4, 2);
  return text;
}

model::Json job_why_to_json(const app::JobWhy& job) { return {{"job", job.job}, {"state", job.state}, {"why", job.sentences}}; }

std::string render(const app::ClaimWhy& claim, const Screen& screen) {
  std::string text;
  for (const std::string& sentence : claim.sentences)
    text += text.empty() ? paragraph(screen, fmt::format("claim {}: {}", claim.id, printable(sentence)), 4)
                         : "  " + paragraph(screen, printable(sentence), 4, 2);
  return text;
}

model::Json claim_why_to_json(const app::ClaimWhy& claim) {
  return {{"claim", claim.id}, {"gpus", claim.gpus}, {"why", claim.sentences}};
}

// A word may name a GPU, a job, a claim, or more than one: "3" is a GPU and a job, and then both are explained. After the word
// "job" all are jobs, after "claim" all are claims.
struct Subjects {
  std::vector<std::string> gpus, jobs;
  std::vector<app::KeptClaim> claims;
};

std::optional<Error> refusal(const std::function<void()>& name) {
  try {
    name();
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) throw;
    return error;
  }
}

app::WaysToEnd ways_to_end(Context& context) {
  return [&control = context.wire.control()](const std::string& claim, uid_t owner) {
    return control.ways_to_end(claim, owner);
  };
}

app::ClaimSearch search_of_all(Context& context) {
  app::ClaimSearch search = claim_search(context);
  search.also_overdue = true;
  return search;
}

Subjects sort_words(Context& context, const app::Overview& overview) {
  std::vector<std::string> words = context.invocation.words;
  const std::string first = words.size() > 1 ? words.front() : "";
  if (first == "job" || first == "claim") words.erase(words.begin());
  if (first == "job") return {{}, words, {}};
  port::JobStore* queue = find_queue(context);
  Subjects named;
  for (const std::string& word : words) {
    const bool perhaps_a_claim = app::looks_like_a_claim(word);
    const auto no_claim = perhaps_a_claim || first == "claim"
        ? refusal([&] { named.claims.push_back(app::claim_with_id(search_of_all(context), word)); })
        : std::optional(Error(ErrorCode::usage, "no such claim"));
    if (first == "claim" && no_claim) throw *no_claim;
    if (first == "claim") continue;
    std::vector<std::string> gpus;
    const auto no_gpu = refusal([&] { app::gpus_named(gpus = gpus_of({"thole why", word}), overview); });
    const auto no_job =
        queue ? refusal([&] { app::selections(*queue, {word}); }) : std::optional(Error(ErrorCode::usage, "no jobs"));
    if (!no_gpu) named.gpus.insert(named.gpus.end(), gpus.begin(), gpus.end());
    if (!no_job) named.jobs.push_back(word);
    if (no_gpu && no_job && !no_claim) continue;
    if (no_gpu && no_job) {
      const bool perhaps_a_number = word.size() < 16 && word.find_first_not_of("0123456789") == std::string::npos;
      if (perhaps_a_claim && !perhaps_a_number) throw *no_claim;
      if (app::is_too_short_for_a_claim(search_of_all(context), word))
        throw Error(ErrorCode::usage, "no such GPU").about(word)
            .hint("the id of a claim begins so: give at least 6 digits of it; " + no_gpu->hint());
      if (queue && app::newest_job(*queue))
        throw Error(ErrorCode::usage, std::string(no_gpu->what()) + ", and no such job").about(word).hint(no_job->hint());
      throw *no_gpu;
    }
  }
  return named;
}

int of_words(Context& context, const app::Overview& overview) {
  const Subjects named = sort_words(context, overview);
  const app::NamedGpus gpus = app::gpus_named(named.gpus, overview);
  model::Json json = {{"schema", "thole/why/1"}, {"units", model::Json::array()}};
  std::vector<UnitWhy> units;
  std::string text;
  for (std::size_t gpu : gpus.gpus) {
    bool any = false;
    for (std::size_t u : gpus.units) {
      if (overview.units[u].unit.gpu != gpu) continue;
      units.push_back(app::why_unit(overview, u, ways_to_end(context)));
      json["units"].push_back(unit_why_to_json(units.back()));
      any = true;
    }
    if (any) continue;
    const std::string& ill = overview.snapshot.machine.gpus[gpu].health_reason;
    const char* no_instances = "MIG mode is on and there are no instances, so there is nothing to claim";
    text += fmt::format("GPU {}: {}\n", gpu, ill.empty() ? no_instances : printable(ill));
  }
  text = render(units, context.screen) + text;
  if (!named.claims.empty()) json["claims"] = model::Json::array();
  for (const app::KeptClaim& claim : named.claims) {
    const app::ClaimWhy why = app::why_claim(search_of_all(context), claim, overview, ways_to_end(context));
    json["claims"].push_back(claim_why_to_json(why));
    text += render(why, context.screen);
  }
  if (!named.jobs.empty()) {
    const app::Queue queue = existing_queue(context);
    keep_going(context);
    json["jobs"] = model::Json::array();
    for (const app::JobWhy& why : app::why_jobs(queue, app::selections(queue.store, named.jobs), overview)) {
      json["jobs"].push_back(job_why_to_json(why));
      text += render(why, context.screen);
    }
  }
  if (context.invocation.global.json)
    context.print_json(json);
  else
    context.print(text + claims_problem(overview, context.screen));
  return 0;
}

int of_request(Context& context, const app::Overview& overview) {
  const model::Request& request = context.invocation.request;
  const app::RequestWhy why = app::why_request(context.wire.site(), request, overview, ways_to_end(context));
  if (context.invocation.global.json) {
    model::Json json = {{"schema", "thole/why/1"},
                        {"request", request.describe()},
                        {"refused", model::or_null(why.refused)}};
    json["plan"] =
        why.preview ? preview_to_json(*why.preview, std::nullopt, {}, overview.snapshot, why.waiting) : model::Json(nullptr);
    json["units"] = model::Json::array();
    for (const UnitWhy& unit : why.units) json["units"].push_back(unit_why_to_json(unit));
    context.print_json(json);
    return 0;
  }
  std::string text = fmt::format("{}\n", printable(request.describe()));
  if (!why.refused.empty())
    text += paragraph(context.screen, "would be refused: " + why.refused);
  else
    text += render_preview(*why.preview, std::nullopt, {}, overview.snapshot, why.waiting, context.screen.columns);
  text += "\n";
  text += render(why.units, context.screen) + claims_problem(overview, context.screen);
  context.print(text);
  return 0;
}

int why(Context& context) {
  const app::Overview overview = look_over(context);
  if (!context.invocation.words.empty()) return of_words(context, overview);
  return of_request(context, overview);
}

constexpr Example why_examples[] = {
  {"thole why 3", "what keeps GPU 3 from being handed out"},
  {"thole why job 12", "what job 12 waits for, or how it ended"},
  {"thole why -g 4 --memory 70G", "would that start now, and if not, what is in the way"},
};

}  // namespace

extern constexpr Verb why_verb = {
    .name = "why",
    .group = "see",
    .summary = "explain a GPU's state, a claim, or what a job or a request waits for",
    .operands = "[GPU...|JOB...|CLAIM...]",
    .request = request_rows,
    .examples = why_examples,
    .offer = Offer::gpus,
    .max_words = 128,
    .check = check_why,
    .run = why,
};

}  // namespace thole::cli
