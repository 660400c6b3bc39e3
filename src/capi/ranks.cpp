// What each process of a group gets that shares out one claim: its part of the GPUs, as variables, and its binding.
#include <algorithm>
#include <exception>
#include <optional>

#include "app/claim/binding.hpp"
#include "app/claim/claim_variables.hpp"
#include "app/claim/outer_claim.hpp"
#include "app/claim/taken_back.hpp"
#include "base/error.hpp"
#include "capi/handles.hpp"
#include "model/json.hpp"
#include "model/json_bind.hpp"
#include "model/json_field.hpp"
#include "model/vendors.hpp"

namespace thole::capi {

namespace {

using model::Field;

using Part = std::vector<std::size_t>;         // units of the claim, indices into Acquired::units

std::size_t unit_of(const app::Acquired& acquired, const Field& name) {
  const auto found = std::find_if(acquired.chosen.begin(), acquired.chosen.end(),
                                  [&](std::size_t unit) { return acquired.units[unit].key == name.text(); });
  if (found == acquired.chosen.end()) name.fail(fmt::format("\"{}\" is no GPU of this claim", printable(name.text(), 60)));
  return *found;
}

std::vector<Part> parts_of(const app::Acquired& acquired, const Field& ranks) {
  std::vector<Part> parts;
  ranks.each([&](const Field& rank) {
    Part part;
    rank.each([&](const Field& name) { part.push_back(unit_of(acquired, name)); });
    parts.push_back(std::move(part));
  });
  return parts;
}

std::vector<std::string> keys_in(const Field& ranks) {
  std::vector<std::string> keys;
  ranks.each([&](const Field& rank) { rank.each([&](const Field& name) { keys.push_back(name.text()); }); });
  return keys;
}

// The same claim, as one of its processes sees it.
app::Acquired narrowed(const app::Acquired& whole, const Part& part) {
  app::Acquired acquired;
  acquired.claim = port::Claim(whole.claim.id());
  acquired.units = whole.units;
  acquired.chosen = part;
  acquired.share_mib = whole.share_mib;
  return acquired;
}

model::Json set_and_unset(const plan::Variables& variables) {
  return {{"set", variables.set}, {"unset", variables.unset}};
}

// A claim, and how its GPUs are shown.
struct Whole {
  const app::Acquired& acquired;
  const model::Request& request;
  plan::Ids ids = plan::Ids::automatic;
};

model::Json shown_by(const app::Observer& observer, const app::Acquired& part, const Whole& claim) {
  model::Json json = set_and_unset(app::variables(observer, part, claim.request, claim.ids));
  const auto by_names = app::lasting_variables(observer, part, claim.request);
  json["by_names"] = by_names ? set_and_unset(*by_names) : model::Json();
  return json;
}

void add_binding(model::Json& rank, const plan::Effect& effect, std::vector<std::string> lacks) {
  for (const auto& [name, value] : effect.set) rank["set"][name] = value;
  rank.update(model::to_json(effect.binding));
  if (effect.binding.memory == model::MemoryPolicy::first_touch) rank["memory"] = nullptr;   // what a process has anyway
  rank["lacks"] = std::move(lacks);
}

// As the claim of a process that runs inside of it.
app::Acquired acquired_around(const app::OuterClaim& around) {
  app::Acquired acquired;
  acquired.claim = port::Claim(around.id);
  acquired.share_mib = around.share_mib;
  for (const std::string& key : around.keys) {
    acquired.chosen.push_back(acquired.units.size());
    acquired.units.emplace_back().key = key;
  }
  return acquired;
}

// That root has taken one of these GPUs back from the claim around this process, of all of its where there are no parts; ""
// where it has taken none. `whole` is that claim as it was.
std::string taken_around(const std::optional<app::OuterClaim>& now, const app::Acquired& whole,
                         const std::vector<Part>& parts) {
  std::vector<std::string> keys;
  for (const Part& part : parts.empty() ? std::vector<Part>{whole.chosen} : parts)
    for (const std::size_t unit : part) keys.push_back(whole.units[unit].key);
  if (!now) return app::taken_back_around(keys);
  const auto lost = std::ranges::find_if(keys, [&](const std::string& key) { return now->has_lost(key); });
  return lost == keys.end() ? "" : app::taken_back_text("GPU " + printable(*lost, 60));
}

char* taken(const std::string& text) {
  return owned_text(model::dump(model::Json{{"ranks", nullptr}, {"taken_back", text}}));
}

std::string taken_from_it(const app::Acquired& claim) {
  const std::vector<std::string> told = app::taken_back(claim);
  return told.empty() ? "" : told.front();
}

// Of a claim around nothing but what numbers its GPUs: what is set above or beside these lists may be somebody's own.
void leave_lists_only(model::Json& rank) {
  model::Json lists = model::Json::object();
  const auto keep = [&](const std::string& name) {
    if (const auto its = rank["set"].find(name); its != rank["set"].end()) lists[name] = *its;
  };
  for (const model::VendorRow& row : model::vendors) keep(std::string(row.lists.front()));
  keep("THOLE_GPUS");
  rank["set"] = std::move(lists);
  rank["unset"] = model::Json::array();
}

model::Json all_shown(const app::Observer& observer, const Whole& claim, const std::vector<Part>& parts) {
  model::Json ranks = model::Json::array();
  for (const Part& part : parts) ranks.push_back(shown_by(observer, narrowed(claim.acquired, part), claim));
  return ranks;
}

}  // namespace

}  // namespace thole::capi

char* thole_claim_ranks(thole_machine* machine, const thole_claim* claim, const char* request, thole_error** error) {
  using namespace thole;
  return capi::guarded(error, [&] {
    capi::given(machine, "machine");
    const model::Json json = model::parse_json(&capi::given(request, "request"), "request");
    const model::Field root(json, "request");
    root.must_be_object();
    capi::Wires::Lease wire(machine->wires);
    const bool anew = root.at("anew").flag_or(false);
    std::optional<app::OuterClaim> outer;
    if (anew && !claim) {
      std::exception_ptr unseen;
      try {
        outer = app::outer_claim(wire->site().store, wire->site().environment);
      } catch (const Error&) {
        unseen = std::current_exception();
      }
      const std::string taken = outer ? "" : app::taken_back_around(capi::keys_in(root.at("ranks")));
      if (!taken.empty()) return capi::taken(taken);
      if (unseen) std::rethrow_exception(unseen);
      if (!outer) return capi::owned_text(model::dump(model::Json{{"ranks", nullptr}}));
    }
    app::Site& site = wire->site();
    const auto around = outer ? std::optional(capi::acquired_around(*outer)) : std::nullopt;
    const model::Request nothing;
    const capi::Whole whole = around ? capi::Whole{*around, nothing}
                                     : capi::Whole{capi::given(claim, "claim").acquired, claim->request, claim->ids};
    const auto parts = capi::parts_of(whole.acquired, root.at("ranks"));
    if (anew) {                                  // the drivers' own lists: a probe that waits here has one from its start
      model::Json ranks = model::Json::array();
      std::exception_ptr failed;
      if (!parts.empty()) try {
          ranks = capi::all_shown(*site.look_anew(), whole, parts);
        } catch (const Error&) {
          failed = std::current_exception();
        }
      // Only now, and whatever came of the look: a driver may take its time.
      const auto now = claim || parts.empty() ? outer : app::outer_claim(site.store, site.environment);
      const std::string taken = claim ? capi::taken_from_it(claim->acquired) : capi::taken_around(now, *around, parts);
      if (!taken.empty()) return capi::taken(taken);
      if (failed) std::rethrow_exception(failed);
      if (around) std::ranges::for_each(ranks, capi::leave_lists_only);
      return capi::owned_text(model::dump(model::Json{{"ranks", std::move(ranks)}}));
    }
    const model::BindWishes wishes = model::bind_wishes_from_json(json.value("bind", model::Json()));
    const auto usual = parts.size() > 1 ? model::BindOptions::for_ranks() : model::BindOptions::for_command();
    site.observer.look(site.patience);
    std::vector<std::vector<std::size_t>> gpus;
    for (const auto& part : parts) gpus.push_back(app::gpus_of(whole.acquired.units, part));
    const app::Binding binding = app::plan_binding(site.observer, wire->bind_site(), site.environment,
                                                    wishes.over(machine->config.binding.over(usual)), std::move(gpus));
    if (claim) app::refuse_taken_back(claim->acquired);
    model::Json ranks = capi::all_shown(site.observer, whole, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) capi::add_binding(ranks[i], binding.effects[i], binding.troubles_of(i));
    return capi::owned_text(model::dump(model::Json{{"ranks", std::move(ranks)}}));
  });
}

char* thole_claim_around(thole_machine* machine, thole_error** error) {
  using namespace thole;
  return capi::guarded(error, [&] {
    capi::given(machine, "machine");
    capi::Wires::Lease wire(machine->wires);
    model::Json json;
    if (const auto shown = app::shown_of_claim_around(wire->site().environment)) {
      json["gpus"] = shown->keys;
      json["by_names"] = shown->by_names.empty() ? model::Json() : model::Json(shown->by_names);
    }
    return capi::owned_text(model::dump(json));
  });
}
