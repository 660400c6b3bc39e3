#include "plan/place/free.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "support/machines.hpp"

namespace thole::test {
namespace {

using Kind = model::GpuProcess::Kind;

struct World {
  model::Snapshot snapshot = machine({"a"});
  model::Request request;
  model::FreePolicy policy;
  std::vector<pid_t> own;

  model::Gpu& gpu() { return snapshot.machine.gpus[0]; }
  model::Use& use() { return gpu().use; }
  // A process, and its memory in the sum.
  void running(model::GpuProcess process) {
    use().memory_used_mib = use().memory_used_mib.value_or(0) + process.memory_mib.value_or(0);
    auto list = *use().processes;
    list.push_back(std::move(process));
    use().processes = list;
  }
  plan::Verdict judge() const { return plan::judge(units_of(snapshot)[0], snapshot, request, policy, own, "anna"); }
};

struct FreeCase {
  const char* rule;
  std::function<void(World&)> arrange;
  const char* verdict;                         // "free", or the standing and the sentence
};

void check_free(const std::vector<FreeCase>& cases) {
  for (const FreeCase& c : cases) {
    World world;
    c.arrange(world);
    const plan::Verdict verdict = world.judge();
    const std::string text = std::string(to_string(verdict.standing)) + (verdict.why.empty() ? "" : ": " + verdict.why);
    EXPECT_EQ(text, c.verdict) << c.rule;
  }
}

// What others can make of it who do not mind that.
TEST(Free, UseThatAloneKeepsItIsTold) {
  const auto used = [](std::optional<std::uint32_t> uid, World& w) {
    model::GpuProcess one = process(47, "bert", 1000);
    one.uid = uid;
    w.running(one);
  };
  const auto told = [](World& w) {
    const plan::Verdict verdict = w.judge();
    return (verdict.kept_by_use ? "by use" : "not by use") + (verdict.used_by ? std::to_string(*verdict.used_by) : "") +
           (verdict.used_by_unseen ? " of one unseen" : "");
  };
  World idle, one, two, elsewhere, unseen, both, hidden, hung;
  EXPECT_EQ(told(idle), "not by use");
  used(7, one);
  EXPECT_EQ(told(one), "by use7");
  used(7, two), used(8, two);
  EXPECT_EQ(told(two), "by use");
  used({}, elsewhere);
  EXPECT_EQ(told(elsewhere), "by use") << "a name that nobody has here";
  used({}, unseen);
  const auto without_name = [](World& w) {
    std::vector<model::GpuProcess> all = *w.use().processes;
    all.front().user.clear();
    w.use().processes = all;
  };
  without_name(unseen);
  EXPECT_EQ(told(unseen), "by use of one unseen");
  used({}, both), without_name(both), used(7, both);
  EXPECT_EQ(told(both), "by use7") << "may be all his";
  used(7, hidden);
  hidden.use().memory_used_mib = std::uint64_t{5000};   // somebody else's too
  EXPECT_EQ(told(hidden), "by use");
  used(7, hung);
  hung.gpu().health = model::Health::hung;
  EXPECT_EQ(told(hung), "not by use");
}

TEST(Free, NobodyUsesIt) {
  check_free({
      {"idle", [](World&) {}, "free"},
      {"the driver's own memory", [](World& w) { w.use().memory_used_mib = std::uint64_t{64}; }, "free"},
      {"a compute process", [](World& w) { w.running(process(47, "bert", 11000)); },
       "foreign: used without a claim by bert (python train.py, pid 47, 10.7 GiB)"},
      {"an MPS client", [](World& w) { w.running(process(47, "bert", 300, "python", Kind::mps)); },
       "foreign: used without a claim by bert (python, pid 47, 300 MiB)"},
      {"nobody's memory", [](World& w) { w.use().memory_used_mib = std::uint64_t{5000}; },
       "foreign: 4.9 GiB of its memory are in use by a process that cannot be seen (--beside any takes it)"},
      {"a process without memory is a process all the same", [](World& w) { w.running(process(47, "bert", 0)); },
       "foreign: used without a claim by bert (python train.py, pid 47, 0 MiB)"},
      {"a process of the claim",
       [](World& w) {
         w.running(process(47, "bert", 11000));
         w.own = {47};
       },
       "free"},
      {"and one of nobody beside it",
       [](World& w) {
         w.running(process(47, "bert", 1));
         w.running(process(48, "", 2, ""));
         w.own = {47};
       },
       "foreign: used without a claim by somebody (pid 48, 2 MiB)"},
      {"an ignored process, with its memory",
       [](World& w) { w.running(process(9, "root", 300, "/usr/bin/nvidia-cuda-mps-server -d")); }, "free"},
      {"a name that only contains an ignored one", [](World& w) { w.running(process(9, "bert", 300, "dcgm-like")); },
       "foreign: used without a claim by bert (dcgm-like, pid 9, 300 MiB)"},
      {"a stranger's escape codes", [](World& w) { w.running(process(9, "b\033[2J", 1, "x")); },
       "foreign: used without a claim by b\\x1b[2J (x, pid 9, 1 MiB)"},
  });
}

TEST(Free, GraphicsDoNotCountButComeLast) {
  check_free({
      {"an X server", [](World& w) { w.running(process(9, "root", 400, "Xorg", Kind::graphics)); }, "free"},
      {"listed as both", [](World& w) { w.running(process(9, "root", 400, "gnome-shell", Kind::both)); }, "free"},
      {"more than they hold",
       [](World& w) {
         w.running(process(9, "root", 400, "Xorg", Kind::graphics));
         w.use().memory_used_mib = std::uint64_t{900};
       },
       "foreign: 500 MiB of its memory are in use by a process that cannot be seen (--beside any takes it)"},
      {"more than they hold, where a display is driven",
       [](World& w) {
         w.running(process(9, "root", 400, "Xorg", Kind::graphics));
         w.use().memory_used_mib = std::uint64_t{900};
         w.gpu().display = true;
       },
       "free"},
      {"all that Windows shows, inside WSL",
       [](World& w) {
         w.gpu().display = true;
         w.use().memory_used_mib = std::uint64_t{2492};
       },
       "free"},
      {"a display seen from another pid namespace",
       [](World& w) {
         w.gpu().display = true;
         w.snapshot.observations[0].pids_foreign = true;
         w.use().memory_used_mib = std::uint64_t{2492};
       },
       "unknown: in use, but this container cannot see by whom (--beside any takes it)"},
      {"memory of graphics that cannot be read",
       [](World& w) {
         auto x = process(9, "root", 0, "Xorg", Kind::graphics);
         x.memory_mib = model::Metric<std::uint64_t>::unsupported();
         w.running(x);
         w.use().memory_used_mib = std::uint64_t{900};
       },
       "free"},
  });
  World graphics;
  graphics.running(process(9, "root", 400, "Xorg", Kind::graphics));
  EXPECT_TRUE(graphics.judge().last_resort);
  World display;
  display.gpu().display = true;
  EXPECT_TRUE(display.judge().last_resort);
  EXPECT_FALSE(World{}.judge().last_resort);
}

TEST(Free, SickIsSaid) {
  using model::Health;
  const auto is = [](Health health) {
    return [health](World& w) {
      w.gpu().health = health;
      w.gpu().health_reason = "Xid 79";
    };
  };
  check_free({
      {"lost", is(Health::lost), "sick: lost: Xid 79"},
      {"reset", is(Health::reset_required), "sick: out of order: Xid 79"},
      {"mismatch", is(Health::driver_mismatch), "sick: driver and library do not match: Xid 79"},
      {"unreadable", is(Health::unreadable), "unknown: cannot be read: Xid 79"},
      {"hung", is(Health::hung), "unknown: the driver does not answer: Xid 79"},
      {"prohibited", [](World& w) { w.gpu().compute_mode = std::string("prohibited"); },
       "sick: its compute mode prohibits computing (nvidia-smi -c DEFAULT allows it)"},
      {"no sharing in exclusive mode",
       [](World& w) {
         w.gpu().compute_mode = std::string("exclusive-process");
         w.request.share = true;
       },
       "sick: its compute mode admits one process only (nvidia-smi -c DEFAULT allows sharing)"},
      {"which is fine alone", [](World& w) { w.gpu().compute_mode = std::string("exclusive-process"); }, "free"},
      {"nor beside what is not seen",
       [](World& w) {
         w.gpu().compute_mode = std::string("exclusive-process");
         w.request.beside = model::Beside::any;
         w.use().memory_used_mib = std::uint64_t{1000};
       },
       "foreign: in use, and its compute mode admits one process only"},
  });
}

TEST(Free, WhatCannotBeSeenIsNotFree) {
  check_free({
      {"nothing known", [](World& w) { w.use() = {}; }, "unknown: its processes cannot be seen"},
      {"no permission",
       [](World& w) { w.use().processes = model::Metric<std::vector<model::GpuProcess>>::failed("no permission"); },
       "unknown: its processes cannot be seen: no permission"},
      {"memory failed", [](World& w) { w.use().memory_used_mib = model::Metric<std::uint64_t>::failed("timeout"); },
       "unknown: its memory in use cannot be read: timeout"},
      {"no process list here (WSL), no memory in use",
       [](World& w) { w.use().processes = model::Metric<std::vector<model::GpuProcess>>::unsupported(); }, "free"},
      {"no process list, memory in use",
       [](World& w) {
         w.use().processes = model::Metric<std::vector<model::GpuProcess>>::unsupported();
         w.use().memory_used_mib = std::uint64_t{700};
       },
       "foreign: 700 MiB of its memory are in use by a process that cannot be seen (--beside any takes it)"},
      {"stale", [](World& w) { w.snapshot.observations[0].age = Millis{40'000}; }, "unknown: last seen 40s ago"},
      {"another pid namespace, memory in use",
       [](World& w) {
         w.snapshot.observations[0].pids_foreign = true;
         w.use().memory_used_mib = std::uint64_t{700};
       },
       "unknown: in use, but this container cannot see by whom (--beside any takes it)"},
      {"another pid namespace, idle", [](World& w) { w.snapshot.observations[0].pids_foreign = true; }, "free"},
      {"a simulated machine that says nothing of its use",
       [](World& w) {
         w.use() = {};
         w.snapshot.simulated = true;
       },
       "free"},
      {"a simulated machine that gives memory only",
       [](World& w) {
         w.use() = {};
         w.use().memory_used_mib = std::uint64_t{700};
         w.snapshot.simulated = true;
       },
       "foreign: 700 MiB of its memory are in use by a process that cannot be seen (--beside any takes it)"},
  });
}

TEST(Free, CoherentMemorySaysNothing) {
  check_free({
      {"by memory it is not judged",
       [](World& w) {
         w.gpu().coherent = true;
         w.use().memory_used_mib = std::uint64_t{9000};
       },
       "free"},
      {"by processes it is",
       [](World& w) {
         w.gpu().coherent = true;
         w.running(process(47, "bert", 1));
       },
       "foreign: used without a claim by bert (python train.py, pid 47, 1 MiB)"},
      {"so the processes must be known",
       [](World& w) {
         w.gpu().coherent = true;
         w.use().processes = model::Metric<std::vector<model::GpuProcess>>::unsupported();
       },
       "unknown: neither its processes nor its memory can be read (only --trust-claims takes it)"},
  });
  World coherent;
  coherent.gpu().coherent = true;
  coherent.use().memory_used_mib = std::uint64_t{9000};
  EXPECT_EQ(coherent.judge().unclaimed_mib, 0u);
}

TEST(Free, BesideToleratesWithinLimits) {
  using model::Beside;
  const auto beside = [](Beside whose, const char* user, double load, std::uint64_t mib) {
    return [=](World& w) {
      w.request.beside = whose;
      w.running(process(47, user, mib));
      w.use().utilization_percent = load;
    };
  };
  check_free({
      {"mine beside mine", beside(Beside::mine, "anna", 20, 1000), "free"},
      {"mine beside another's", beside(Beside::mine, "bert", 20, 1000),
       "foreign: used without a claim by bert (python train.py, pid 47, 1000 MiB)"},
      {"unknown user is not mine", beside(Beside::mine, "", 20, 1000),
       "foreign: used without a claim by somebody (python train.py, pid 47, 1000 MiB)"},
      {"any", beside(Beside::any, "bert", 50, 1000), "free"},
      {"too much load", beside(Beside::any, "bert", 51, 1000), "foreign: busy: 51% load, more than 50%"},
      {"too much memory", beside(Beside::any, "bert", 1, 41000), "foreign: full: 50% of its memory is in use, more than 50%"},
      {"another limit",
       [&](World& w) {
         beside(Beside::any, "bert", 90, 60000)(w);
         w.request.max_load_percent = 95;
         w.request.max_memory_percent = 80;
       },
       "free"},
      {"load that cannot be read",
       [&](World& w) {
         beside(Beside::any, "bert", 0, 1000)(w);
         w.use().utilization_percent = model::Metric<double>::unsupported();
       },
       "unknown: in use, and its load cannot be read"},
      {"with nobody beside, limits do not matter",
       [](World& w) {
         w.request.beside = model::Beside::any;
         w.use().utilization_percent = 99.0;
       },
       "free"},
  });
}

TEST(Free, ALimitOfAHundredPercentNeedsNoReading) {
  check_free({{"load", [](World& w) {
            w.request.beside = model::Beside::any;
            w.request.max_load_percent = 100;
            w.running(process(47, "bert", 1000));
            w.use().utilization_percent = model::Metric<double>::unsupported();
          }, "free"}});
}

TEST(Free, AProcessOfTheClaimWhoseMemoryIsNotToldExplainsAllOfIt) {
  World world;
  model::GpuProcess mine = process(47, "anna", 0);
  mine.memory_mib = {};
  world.running(mine);
  world.use().memory_used_mib = std::uint64_t{9000};
  world.own = {47};
  EXPECT_EQ(world.judge().standing, plan::Standing::free) << world.judge().why;
  EXPECT_EQ(world.judge().unclaimed_mib, 0u) << "what it has is not what nobody claimed";
}

TEST(Free, AGpuIsJudgedByItsOwnVendorsReading) {
  World world;
  model::Observation other = world.snapshot.observations[0];
  other.backend = "amd";
  other.age = Millis{40'000};
  world.snapshot.observations[0].backend = "nvidia";
  world.snapshot.observations.insert(world.snapshot.observations.begin(), other);
  EXPECT_EQ(world.judge().standing, plan::Standing::free) << world.judge().why;
  world.gpu().vendor = model::Vendor::amd;
  EXPECT_EQ(world.judge().why, "last seen 40s ago");
}

TEST(Free, TrustingClaimsLooksAtHealthAlone) {
  check_free({
      {"a process", [](World& w) { w.request.trust_claims = true; w.running(process(47, "bert", 9000)); }, "free"},
      {"nothing known", [](World& w) { w.request.trust_claims = true; w.use() = {}; }, "free"},
      {"lost is lost", [](World& w) { w.request.trust_claims = true; w.gpu().health = model::Health::lost; },
       "sick: lost: it has fallen off the bus"},
      {"cannot be told", [](World& w) { w.request.trust_claims = true; w.gpu().health = model::Health::unreadable; }, "free"},
  });
  World unread;
  unread.request.trust_claims = true;
  EXPECT_FALSE(unread.judge().last_resort);
  unread.gpu().health = model::Health::unreadable;
  EXPECT_TRUE(unread.judge().last_resort) << "those that answer come first";
}

TEST(Free, EnoughMemoryMustBeLeft) {
  check_free({
      {"beside graphics",
       [](World& w) {
         w.request.memory_mib = 81000;
         w.running(process(9, "root", 1000, "Xorg", Kind::graphics));
       },
       "foreign: only 79.0 GiB of its memory are free"},
      {"enough",
       [](World& w) {
         w.request.memory_mib = 80000;
         w.running(process(9, "root", 1000, "Xorg", Kind::graphics));
       },
       "free"},
  });
}

TEST(Free, NamesWhomToWaitForAndWhatIsUnclaimed) {
  World world;
  world.running(process(47, "bert", 100));
  world.running(process(48, "cleo", 200));
  world.running(process(49, "anna", 400));
  world.own = {49};
  EXPECT_EQ(world.judge().wait_for, (std::vector<pid_t>{47, 48}));
  EXPECT_EQ(world.judge().unclaimed_mib, 300u);
  world.snapshot.observations[0].pids_foreign = true;
  EXPECT_EQ(world.judge().wait_for, std::vector<pid_t>{}) << "numbers of another namespace are not ours to watch";
}

TEST(Free, AnInstanceIsJudgedByItsOwnUse) {
  model::Snapshot snapshot = machine({"a"});
  partition(snapshot, 0, {"3g.40gb", "3g.40gb"});
  snapshot.machine.gpus[0].mig[1].use.processes = std::vector{process(47, "bert", 0)};
  const auto units = units_of(snapshot);
  EXPECT_EQ(plan::judge(units[0], snapshot, {}, {}, {}, "").standing, plan::Standing::free);
  EXPECT_EQ(plan::judge(units[1], snapshot, {}, {}, {}, "").standing, plan::Standing::foreign);
}

}  // namespace
}  // namespace thole::test
