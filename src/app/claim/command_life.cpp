#include "app/claim/command_life.hpp"

#include <utility>

#include "app/queue/task_text.hpp"

namespace thole::app {

using model::Left;
using model::SentTo;
using model::Signal;
using plan::Phase;
using plan::Rung;
using plan::Why;

namespace {

bool is_interrupt(Signal signal) {
  return signal == Signal::interrupt || signal == Signal::terminate || signal == Signal::hang_up || signal == Signal::quit;
}

}  // namespace

void put_why(port::Ended& how, plan::Why why) {
  how.time_limit = why == Why::time_limit;
  how.released = why == Why::released;
}

pid_t CommandLife::begin(const port::ProcessSpec& spec) {
  const pid_t pid = commands_.start(bay_, spec);
  life_ = plan::born(manner_, clock_.steady());
  ended_ = {};
  impatience_ = {};
  return pid;
}

void CommandLife::tell(const plan::Event& event) {
  const Phase before = life_.phase;
  plan::Do act = plan::after(life_, manner_, event, clock_.steady());
  for (;;) {
    if (act.name) name();
    if (act.send) {
      if (life_.rung != Rung::none && events_.rung) events_.rung(life_.rung, life_.why);
      const std::vector<std::string> others = commands_.send(bay_, act.send->signal, act.send->to);
      if (!others.empty() && events_.out_of_reach) events_.out_of_reach(others);
    }
    if (act.go_on) (void)commands_.send(bay_, Signal::go_on, SentTo::all);
    if (act.send || act.name) say_step(before);
    if (!act.look) break;
    const port::Rest rest = commands_.look(bay_, port::Names::no);
    act = plan::after(life_, manner_, plan::Looked{rest.left, rest.still}, clock_.steady());
  }
  if (is_over() && before != Phase::over) finish();
}

void CommandLife::heard(const port::CommandEvent& event) {
  if (std::holds_alternative<port::RestStirred>(event)) return tell(plan::Stirred{});
  if (const auto* told = std::get_if<port::Signalled>(&event)) {
    const Signal signal{told->number};
    if (!is_interrupt(signal)) return;
    if (!told->commands && impatience_.hurries(signal, clock_.steady())) tell(plan::Hurried{});
    else if (told->commands) impatience_.asked(clock_.steady());   // what ends the command may be told to us once more
    return;
  }
  if (const auto* slept = std::get_if<port::WeSlept>(&event)) return tell(plan::Slept{slept->length});
  const auto* end = std::get_if<port::CommandEnded>(&event);
  if (!end || end->bay != bay_) return;
  put_how(ended_, end->how);
  peak_memory_kib_ = end->how.peak_memory_kib;
  why_it_ended_ = life_.why;
  put_why(ended_, why_it_ended_);
  tell(plan::Ended{end->alone});
}

void CommandLife::passed() {
  if (const auto when = deadline(); when && *when <= clock_.steady()) tell(plan::Passed{});
}

void CommandLife::name() {
  const port::Rest rest = commands_.look(bay_, port::Names::yes);
  if (rest.left == Left::unseen) {
    if (events_.unseen) events_.unseen();
    return;
  }
  if (!rest.who.empty()) first_left_ = rest.who.front();
  for (const port::Member& member : rest.who) ended_.left_behind.push_back(member.words);
  if (rest.who.empty() && rest.left != Left::nothing) ended_.left_behind.emplace_back(nobody_read);
  if (events_.left_behind && !ended_.left_behind.empty())
    events_.left_behind(ended_.left_behind, life_.phase == Phase::lingering);
}

// To those who wait for its end: for whom, and when it gets KILL.
void CommandLife::say_step(Phase before) {
  if (!events_.ending) return;
  const SteadyTime now = clock_.steady();
  if (life_.phase == Phase::running && life_.rung != Rung::none) {
    const port::Rest its = commands_.look(bay_, port::Names::yes);
    const int rungs_to_kill = static_cast<int>(Rung::kill) - static_cast<int>(life_.rung);
    if (!its.who.empty()) events_.ending({its.who.front().pid, its.who.front().name, now + manner_.patience * rungs_to_kill});
  } else if (first_left_ && life_.phase == Phase::lingering) {
    events_.ending({first_left_->pid, first_left_->name, std::nullopt});
  } else if (first_left_ && life_.phase == Phase::ending && before != Phase::ending) {
    events_.ending({first_left_->pid, first_left_->name, life_.rung == Rung::kill ? now : now + manner_.patience});
  }
}

void CommandLife::finish() {
  if (events_.spared)
    if (const auto spared = commands_.look(bay_, port::Names::yes).spared; !spared.empty()) events_.spared(spared);
  commands_.let_go(bay_);
}

port::Ended live(port::Commands& commands, const port::Clock& clock, const port::ProcessSpec& spec, const plan::Manner& manner,
                 LifeEvents events) {
  CommandLife life(commands, clock, 0, manner, std::move(events));
  life.begin(spec);
  while (!life.is_over()) {
    for (const port::CommandEvent& event : commands.wait(life.deadline())) life.heard(event);
    life.passed();
  }
  return life.ended();
}

}  // namespace thole::app
