#include "app/claim/run.hpp"

#include <algorithm>

#include "app/claim/claim_variables.hpp"
#include "app/claim/command_life.hpp"
#include "app/claim/door.hpp"
#include "app/claim/holding.hpp"
#include "app/claim/locks_around.hpp"
#include "app/claim/outer_claim.hpp"
#include "app/claim/taken_back.hpp"
#include "app/queue/task_text.hpp"
#include "base/error.hpp"
#include "base/printable_lines.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

namespace thole::app {

namespace {

constexpr port::Bay only_bay = 0;

constexpr const char* unseen_rest = "what the command left running is neither named nor ended: /proc is that of another pid "
                                    "namespace (unshare -p --mount-proc gives one its own)";

using TellCaution = std::function<void(const std::string&)>;

// What the claims around a joined one say, and keep, binds what runs in it too.
void enter_around(const Site& site, const std::string& outer, Acquired& joined, const TellCaution& caution) {
  const std::vector<OuterClaim> around = claims_around(site.store, {{"THOLE_CLAIM", outer}});
  if (around.empty() || around.front().id != outer)
    throw Error(ErrorCode::unavailable, "the claim around this one has ended").about(outer);
  const std::optional<std::uint64_t> share = around.front().share_mib;
  if (share) joined.share_mib = std::min(joined.share_mib.value_or(*share), *share);
  keep_around(site, around, joined.claim, caution);
}

KeptClaim claim_named(RunPorts& ports, const std::string& word) {
  const auto gpus = [&ports]() -> const Observer& {
    ports.site.observer.look(ports.site.patience);
    return ports.site.observer;
  };
  return find_claim({.store = &ports.site.store,
                     .environment = ports.site.environment,
                     .uid = ports.site.uid,
                     .directory = ports.directory,
                     .gpus = gpus,
                     .user_name = ports.site.user_name,
                     .job_of_lane = ports.job_of_lane,
                     .shell = ports.site.shell},
                    word);
}

[[noreturn]] void no_longer_held(const std::string& id) {
  throw Error(ErrorCode::unavailable, "the claim to run in has ended").about(id);
}

// Some of a claim's units, as whoever runs inside it claims them. The masks of where we come from say nothing of it.
Acquired claim_within(RunPorts& ports, const RunRequest& wanted, const AcquireOptions& options) {
  const KeptClaim kept = claim_named(ports, wanted.in);
  if (kept.uid != ports.site.uid)
    throw Error(ErrorCode::usage, "only its owner claims a part of a claim")
        .about(kept.id)
        .hint("without -g and the like a command has the whole of it");
  const plan::Environment inside{{"THOLE_CLAIM", kept.id}};
  const std::optional<OuterClaim> around = outer_claim(ports.site.store, inside);
  if (!around || around->id != kept.id) no_longer_held(kept.id);
  const Site& here = ports.site;
  Site site{here.observer, here.store,     here.clock,    inside,    here.policy, here.common_policy,
            here.uid,      here.user_name, here.patience, here.lend, here.shell,  "--in " + printable(wanted.in, 60),
            here.look_anew};
  Acquired part = acquire(site, wanted.request, options);
  const bool is_part = !part.claim.is_all_of_another() && wanted.request.gpus > 0;
  if (is_part && !part.inner_store) no_longer_held(kept.id);   // while we waited
  return part;
}

void refuse_taken_from(const Site& site, const KeptClaim& kept) {
  const std::vector<std::string> taken = taken_from(site.store, kept);
  if (taken.empty()) return;
  const auto unit = model::index_of(taken.front(), site.observer.units());
  refuse_taken_back("GPU " + (unit ? site.observer.units()[*unit].label : printable(taken.front(), 60)));
}

// A claim that is kept by somebody of ours, joined by copies of its locks.
Acquired join_claim(RunPorts& ports, const std::string& word, const TellCaution& caution) {
  const KeptClaim kept = claim_named(ports, word);
  Acquired joined;
  ports.site.observer.look(ports.site.patience);
  if (kept.uid == ports.site.uid) refuse_taken_from(ports.site, kept);
  const std::string id = last_part(kept.id);     // as the store knows it
  port::ClaimParts parts{.id = kept.id, .keys = kept.keys, .locks = {}};
  port::ClaimStore& store = kept.claimed_in(ports.site.store);
  ask_keeper(kept, [&] {
    parts.locks = ports.control.descriptors(
        kept.address(), [&](std::vector<Fd>& locks) { store.check(id, kept.keys, locks, kept.uid); });
  });
  joined.claim = port::Claim(port::Claim::State::joined, std::move(parts));
  joined.share_mib = kept.uid == ports.site.uid ? store.own_share(id) : kept.share_mib;
  if (const std::size_t slash = kept.id.rfind('/'); slash != std::string::npos)
    enter_around(ports.site, kept.id.substr(0, slash), joined, caution);
  joined.units = ports.site.observer.units();
  joined.chosen = units_now(ports.site.observer, kept.keys);
  std::ranges::sort(joined.chosen);
  joined.explain = fmt::format("inside claim {}", kept.id);
  return joined;
}

LifeEvents told(const RunEvents& events, port::ClaimDoor* door) {
  LifeEvents life;
  const TellCaution& caution = events.caution;
  life.left_behind = events.left_behind;
  if (door) life.ending = [door](const port::Ending& ending) { door->say_ending(ending); };
  if (!caution) return life;
  life.spared = [&caution](const auto& which) { caution(spared_text(which)); };
  life.unseen = [&caution] { caution(unseen_rest); };
  life.out_of_reach = [&caution](const auto& which) { caution(out_of_reach_text(which)); };
  return life;
}

// The claim's end, as others are told it. While we are stopped nobody knows it.
struct Declared {
  RunPorts& ports;
  const Acquired& acquired;
  port::ClaimDoor* door = nullptr;
  std::optional<WallTime> until;

  void tell(std::optional<WallTime> when) const {
    if (door) declare_end(ports.site, acquired, door, when);
  }
  void stands_still() const { if (until) tell(std::nullopt); }
  void goes_on(Millis after) {
    if (!until) return;
    *until += after;
    tell(until);
  }
};

void obey(const port::Order& order, CommandLife& life, Declared& declared) {
  if (order.until) {
    declared.until = order.until;
    const port::Clock& clock = declared.ports.site.clock;
    life.tell(plan::Extended{clock.steady() + (*order.until - clock.wall())});
  }
  if (order.end) life.tell(plan::Asked{plan::Why::released});
}

void hear(const port::CommandEvent& event, CommandLife& life, Declared& declared) {
  if (std::holds_alternative<port::Readable>(event)) return obey(declared.door->serve(), life, declared);
  if (std::holds_alternative<port::WeStop>(event)) return declared.stands_still();
  if (const auto* slept = std::get_if<port::WeSlept>(&event)) declared.goes_on(slept->length);
  life.heard(event);
}

}  // namespace

port::Ended run(RunPorts ports, const RunRequest& wanted, const RunEvents& events, const std::vector<int>& cancel) {
  port::ProcessSpec program;
  program.argv = wanted.argv;
  ports.processes.check_program(program);    // not after hours in line
  AcquireOptions options;
  options.command = command_line(wanted.argv);
  options.enforced = wanted.supervised;
  options.cancel = cancel;
  options.looked = [&](const model::Snapshot& seen) { check_binding(seen.machine, wanted.bind, wanted.request); };
  options.waiting = events.waiting;
  options.caution = events.caution;
  Acquired acquired = wanted.in.empty()   ? acquire(ports.site, wanted.request, options)
                      : wanted.part_of_it ? claim_within(ports, wanted, options)
                                          : join_claim(ports, wanted.in, events.caution);
  if (events.got) events.got(acquired);

  const std::optional<Binding> binding = binding_for(ports.site, ports.bind, wanted.bind, acquired, 1);
  if (binding && events.binding) events.binding(*binding);
  const plan::Variables shown = variables(ports.site.observer, acquired, wanted.request, wanted.ids);
  port::ProcessSpec spec = spec_with(acquired, shown, wanted.carry);
  spec.argv = wanted.argv;
  if (binding) put_into(spec, *binding, 0, [&](const ReadBack& answer) { if (events.bound) events.bound(*binding, answer); });
  ports.site.observer.rest();                // no probe of ours beside the job, nor among the processes we wait for
  refuse_taken_back(acquired);
  if (!wanted.supervised) ports.processes.become(spec);

  std::optional<WallTime> until;
  if (wanted.request.time) until = ports.site.clock.wall() + *wanted.request.time;
  const CommandLife* lives = nullptr;
  const auto is_ending = [&lives] { return lives && !lives->may_be_extended(); };
  std::unique_ptr<port::ClaimDoor> door = open_door(ports.make_door, ports.site, acquired, until, events.caution, is_ending);
  const plan::Manner manner{.limit = wanted.request.time, .leaves = wanted.linger ? plan::Leaves::linger : plan::Leaves::end};
  CommandLife life(ports.commands, ports.site.clock, only_bay, manner, told(events, door.get()));
  if (door) ports.commands.watch(door->fd(), true);
  life.begin(spec);
  lives = &life;
  Declared declared{ports, acquired, door.get(), until};
  while (!life.is_over()) {
    for (const port::CommandEvent& event : ports.commands.wait(life.deadline())) hear(event, life, declared);
    life.passed();
  }
  if (events.caution)
    for (const std::string& text : taken_back(acquired)) events.caution(text);
  acquired.claim.release();                  // free before anybody is told so
  if (door) door->let_go();
  return life.ended();
}

}  // namespace thole::app
